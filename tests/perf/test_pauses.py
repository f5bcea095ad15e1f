"""Pauses of the machine are told by the processor time of what takes a millisecond."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from faircall.perf import pauses
from faircall.perf.pauses import Pauses, PauseWatch


def test_only_what_took_too_long_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock_ns = iter([0, 1_200_000, 0, 12_600_000, 0, 7_000_000])
    monkeypatch.setattr(time, "thread_time_ns", lambda: next(clock_ns))
    watch, found = PauseWatch(str(tmp_path / "noted")), Pauses(tmp_path / "noted")
    for moment_ns in (100, 200, 300):
        monkeypatch.setattr(time, "monotonic_ns", lambda moment_ns=moment_ns: moment_ns)
        watch.ended(watch.began())
    assert (tmp_path / "noted").read_text() == "200 12.6\n300 7.0\n"
    assert found.longest_ms() == 12.6
    assert found.longest_ms(from_ns=250) == 7.0
    assert found.longest_ms(from_ns=0, to_ns=200) == 0.0


def test_nothing_is_noted_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pauses.PAUSES_VARIABLE, raising=False)
    watch = PauseWatch()
    assert watch.began() == (0, 0)
    watch.ended((0, 0))


def test_the_command_says_the_longest_of_each_repeat(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCALL_SPIN_TURNS_PER_MS", "1000")
    pauses.main(["--seconds", "0.05", "--repeats", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["longest", "pause"]] * 2
