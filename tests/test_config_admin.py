"""Where the admin process may listen over HTTP, and what it then needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircall.server.admin.admin import access_of
from faircall.server.config import ConfigError
from faircall.server.settings import places
from faircall.server.supervisor.failures import CannotStart

from .conftest import Load


@pytest.mark.parametrize(
    ("written", "listens"),
    [
        ('"127.0.0.1:9464"', ["tcp://127.0.0.1:9464"]),
        ('"tcp://localhost:1, [::1]:2"', ["tcp://localhost:1", "tcp://[::1]:2"]),
        ('["unix:/run/m.sock"]', ["unix:/run/m.sock"]),
        ('""', []),
        ("[]", []),
    ],
)
def test_addresses_may_be_written_without_a_scheme(
    load: Load, written: str, listens: list[str]
) -> None:
    assert list(map(str, load(f"[admin]\nlisten = {written}\n").admin.listen)) == listens


def test_it_does_not_listen_by_default(load: Load) -> None:
    assert load().admin.listen == ()


def test_what_is_shown_reads_as_itself() -> None:
    kind = places.HTTP_ADDRESSES
    value = kind.read(["127.0.0.1:1", "unix:/x"])
    assert kind.show(value) == '["tcp://127.0.0.1:1", "unix:/x"]'
    assert kind.read(["tcp://127.0.0.1:1", "unix:/x"]) == value


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("0.0.0.0:9464", "set admin.token-file, too, or listen on 127.0.0.1 or a Unix socket"),
        ("example.org:9464", "could read the users"),
        ("127.0.0.1", "needs a port"),
        ("unix:/run/m.sock#8020", "belongs to no section"),
    ],
)
def test_where_it_must_not_listen_is_an_error(load: Load, written: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"admin.listen.*{why}"):
        load(f"[admin]\nlisten = '{written}'\n")


def test_with_tokens_it_may_listen_anywhere(load: Load) -> None:
    settings = load("[admin]\nlisten = '0.0.0.0:1'\ntoken-file = 'tokens'\n")
    with pytest.raises(CannotStart, match=r"admin.token-file: tokens cannot be read"):
        access_of(settings)
    Path("tokens").touch(0o644)
    with pytest.raises(CannotStart, match="others have access; chmod 600"):
        access_of(settings)
    Path("tokens").chmod(0o600)
    access_of(settings)
