"""The rates that are kept over a restart: whole or not at all, and never ignored when broken."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from faircall.server.set_rates import SetRates
from faircall.server.state_file import StateFileUnusable, read_state, write_state

RATES = SetRates(7, ("server: calls=5", "method m: block"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(str(path), RATES)
    write_state(str(path), RATES)
    assert read_state(str(path)) == RATES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_file_nothing_is_set(tmp_path: Path) -> None:
    assert read_state("") == read_state(str(tmp_path / "none")) == SetRates()


def test_a_write_that_was_cut_off_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_state(str(path), RATES)
    (tmp_path / "state.new").write_text('{"format": 1, "vers')
    assert read_state(str(path)) == RATES
    write_state(str(path), SetRates(8))
    assert read_state(str(path)) == SetRates(8)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "is no JSON"),
        ("[]", 'has no "format": 1'),
        (json.dumps({"format": 2}), 'has no "format": 1'),
        (json.dumps({"format": 1, "version": -1, "rates": []}), "no number"),
        (json.dumps({"format": 1, "version": 1, "rates": "x"}), "no list of lines"),
        (json.dumps({"format": 1, "version": 1, "rates": ["x: y"]}), "a line that is no rate: 'x"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_broken_file_is_an_error_that_says_what_to_do(
    tmp_path: Path, text: str, what: str
) -> None:
    path = tmp_path / "state"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(StateFileUnusable, match=what) as raised:
        read_state(str(path))
    assert str(path) in str(raised.value)
    assert "move it away" in str(raised.value)


def test_a_line_replaces_the_one_about_the_same() -> None:
    rates = SetRates().with_line("resource g of a: running=1").with_line("server: calls=1")
    assert rates.version == 2
    assert rates.with_line("server:  calls=1") is rates
    assert rates.with_line("resource g of a b: running=2").lines == (
        "server: calls=1",
        "resource g of a b: running=2",
    )
    assert rates.without("resource g").lines == ("server: calls=1",)
    assert rates.without("each method") is rates
