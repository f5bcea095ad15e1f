"""Every scenario runs for a moment, and what it shows is what it measured. No figure is judged."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import pytest

from faircall.perf import concurrency, costs, fairness, first_second, minting, reloading, throughput
from faircall.perf.pairs import LEAST_PAIRS
from faircall.perf.rows import Row, pss_mib, table

pytestmark = pytest.mark.slow


def assert_measured(rows: Sequence[Row], *keys: str) -> None:
    """These figures are positive numbers, and no two rows have them all alike."""
    for row in rows:
        for key in keys:
            value = float(str(row[key]))
            assert value > 0, (key, row)
            assert math.isfinite(value), (key, row)
    assert len({tuple(row[key] for key in keys) for row in rows}) == len(rows)


def test_concurrency() -> None:
    rows = concurrency.rows(1.0, connections=(8,))
    assert [row["queue"] for row in rows] == ["fifo", "fair"]
    assert_measured(rows, "light p50 ms", "light p99 ms", "light calls", "heavy calls/s")


def test_first_second() -> None:
    rows = first_second.rows(2.0, connections=16, light_rate=20)  # half of no machine's calls
    assert [row["in turn"] for row in rows] == ["on", "off"]
    assert [row["flood level"] for row in rows] == [3, 3]
    assert_measured(rows, "light p50 before ms", "light p50 ms", "light p99 ms", "flood calls")


@pytest.mark.stress
def test_costs() -> None:
    rows = costs.rows(0.5, calls=50)
    assert [row["calls"] for row in rows] == [150, 150]
    for row in rows:
        assert sum(float(str(row[f"{user} share"])) for user in costs.USERS) == pytest.approx(
            1, abs=0.02
        )


def test_minting() -> None:
    rows = minting.rows(1.0, connections=4)
    assert rows[0]["p99 ratio"] == 1.0
    for row in rows:  # made-up names have no rows of their own, but for a few at a sweep
        assert 2 <= float(str(row["users known"])) < 20
    assert_measured(rows, "heavy share", "heavy calls/s", "light p50 ms", "light p99 ms")


def test_memory_by_names() -> None:
    rows = minting.memory_rows(1.5, every_s=0.5, connections=4)
    names = [int(str(row["names"])) for row in rows]
    assert names[-1] > 0
    assert names == sorted(names)
    assert [row["names since"] for row in rows] == [count - names[0] for count in names]
    assert rows[0]["growth MiB"] == 0
    assert_measured(rows, "users known", "PSS MiB")


@pytest.mark.stress
def test_throughput() -> None:
    rows = throughput.rows(0.6)
    assert [row["pairs"] for row in rows] == [LEAST_PAIRS] * 3  # depths and callers
    assert_measured(rows, "calls/s fifo", "calls/s fair", "ratio")


@pytest.mark.stress
def test_reload() -> None:
    rows = reloading.rows(0.6, waiting=3000)
    assert [row["reloaded"] for row in rows] == ["nothing", "weights", "levels"]
    assert [int(str(row["reloads"])) > 0 for row in rows] == [False, True, True]
    assert {row["light failed"] for row in rows} == {row["crowd failed"] for row in rows} == {0}
    for row in rows:
        assert 0 < int(str(row["waiting"])) < 3000
    assert_measured(rows, "light p50 ms", "light p99 ms", "light max ms")


def test_the_command_prints_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[float] = []

    def rows(seconds: float) -> list[Row]:
        asked.append(seconds)
        return [{"queue": "fifo", "p99 ms": 1.5}, {"queue": "fair", "p99 ms": 10.25}]

    monkeypatch.setattr(fairness, "SCENARIOS", {"concurrency": rows})
    fairness.main(["concurrency"])
    fairness.main(["concurrency", "--seconds", "1"])
    assert asked == [fairness.SECONDS["concurrency"], 1.0]
    assert capsys.readouterr().out.splitlines()[:4] == [
        "queue  p99 ms",
        "-----  ------",
        " fifo    1.50",
        " fair   10.25",
    ]


def test_a_table_and_the_memory_of_a_process() -> None:
    assert table([{"a": "x"}]) == "a\n-\nx"
    assert pss_mib(os.getpid()) > 1
