"""What is written from the declarations: the reference page, a file of the values in force."""

from __future__ import annotations

from pathlib import Path

import pytest

import faircall
from faircall.server.config import Settings
from faircall.server.settings.reference import page
from faircall.server.settings.show import toml_lines

from .conftest import Load

REFERENCE = Path(faircall.__file__).parent / "docs/configuration.md"


@pytest.mark.skipif(not REFERENCE.exists(), reason="runs in a checkout only")
def test_the_reference_page_is_current() -> None:
    assert REFERENCE.read_text() == "\n".join(page()), "run `make docs`"


def test_rows_of_the_reference_page_have_as_many_cells_as_their_head() -> None:
    for block in "\n".join(page()).split("\n\n"):
        rows = [line.replace("\\|", "") for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1, block


CONFIGURATIONS = {
    "nothing": "",
    "two ports": """
        [server]
        bind = ["tcp://127.0.0.1:1", "unix:/run/x.sock#2", "unix:/y"]
        [ipc]
        callqueue.impl = "LinkedBlockingQueue"
        [ipc.1]
        callqueue.impl = "FairCallQueue"
        scheduler.priority.levels = 5
        decay-scheduler.service-users = "a,b"
        cost-provider.impl = "my.costs:Costs"
        """,
    "limits": """
        [limits]
        max-message-bytes = 1234567
        [identity]
        trusted-peers = ["10.0.0.0/8"]
        trust-loopback = true
        [log]
        format = "json"
        """,
}


def values(settings: Settings) -> dict[str, object]:
    """All values; for a Unix socket of the first section not how the section was found."""
    parts = {name: getattr(settings, name) for name in Settings.__slots__}
    del parts["origins"], parts["notes"]
    parts["ports"] = [
        {name: getattr(port, name) for name in port.__slots__ if name != "hadoop_rules"}
        for port in settings.ports.values()
    ]
    return parts


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_effective_configuration_is_a_file_that_says_the_same(load: Load, name: str) -> None:
    settings = load(CONFIGURATIONS[name])
    again = load("\n".join(toml_lines(settings, defaults=True)))
    assert values(again) == values(settings)
    assert not [o for o in again.origins.values() if not o.startswith("faircall.toml:")]


def test_without_defaults_only_what_was_written_is_shown(load: Load) -> None:
    settings = load("[limits]\nmax-batch = 5", environ={"FAIRCALL_IPC_BACKOFF_ENABLE": "false"})
    assert list(toml_lines(settings, defaults=False)) == [
        "[limits]",
        f"{'max-batch = 5':<48}  # faircall.toml:2",
        "",
        "[ipc.8020]",
        f"{'backoff.enable = false':<48}  # FAIRCALL_IPC_BACKOFF_ENABLE",
        "",
    ]
