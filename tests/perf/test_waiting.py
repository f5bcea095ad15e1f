"""The measurement of a crowded table measures a table that is crowded."""

from __future__ import annotations

import pytest

from faircall.perf import waiting
from faircall.perf.waiting import Crowd


def test_a_crowd_goes_on_waiting() -> None:
    crowd = Crowd(50)
    for _ in range(200):
        crowd.serve_next()
    table = crowd.table
    assert table.q[table.waiting_word] == 50
    assert crowd.shared.audit() == []
    crowd.close()


def test_a_row_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    waiting.main(["--callers", "3,30", "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["callers", "waiting", "us", "per", "call", "ratio"]
    assert [line.split()[0] for line in lines[2:]] == ["3", "30"]
    assert all(float(line.split()[1]) > 0 for line in lines[2:])
