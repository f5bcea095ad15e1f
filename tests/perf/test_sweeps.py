"""Knees of sweeps and matrices of figures, and how long a lock is held."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faircall.perf.bench import scenario
from faircall.perf.bench.histogram import Histogram
from faircall.perf.bench.specs import GridSpec, KneeSpec
from faircall.perf.bench.sweeps import grids_of, knee_of
from faircall.perf.bench.tables import knee_line, suite_table
from faircall.perf.timed_lock import Holds, read


def case(labels: dict[str, Any], **figures: float | None) -> dict[str, Any]:
    named = {name.replace("_", " "): [value] for name, value in figures.items()}
    named["offered calls/s"] = named.pop("offered", [None])
    named["calls/s"] = named.pop("answered", [None])
    return {"labels": labels, "figures": named, "groups": {}}


def sweep(*p99_ms: float, answered: Sequence[float] = ()) -> list[dict[str, Any]]:
    return [
        case(
            {"load": number / 10},
            p99_ms=value,
            offered=100.0 * number,
            answered=(answered[number - 1] if answered else 100.0 * number),
        )
        for number, value in enumerate(p99_ms, 1)
    ]


def test_the_knee_is_the_last_load_whose_latency_is_bounded() -> None:
    (knee,) = knee_of(KneeSpec(over="load", times=5), sweep(1, 2, 5, 6, 4))
    assert (knee["at"], knee["value"], knee["limit"], knee["offered"]) == (0.3, 5, 5, 300)
    assert knee_line(knee).startswith("knee: load=0.3, 300 calls/s offered, p99 ms 5 (at most 5)")


def test_the_knee_is_the_last_load_that_is_answered() -> None:
    answered = [100, 198, 290, 400]
    (knee,) = knee_of(KneeSpec(over="load"), sweep(1, 1, 1, 1, answered=answered))
    assert knee["at"] == 0.2
    (knee,) = knee_of(KneeSpec(over="load"), sweep(1, 1, answered=[90, 200]))
    assert knee["at"] is None
    assert "none" in knee_line(knee)


def test_every_sweep_has_its_knee() -> None:
    cases = [
        case({"queue": queue, "load": load}, p99_ms=load, offered=1.0, answered=1.0)
        for queue in ("fifo", "fair")
        for load in (1, 2)
    ]
    found = knee_of(KneeSpec(over="load", times=1.5), cases)
    assert [(knee["sweep"], knee["at"]) for knee in found] == [("queue=fifo", 1), ("queue=fair", 1)]


def test_a_figure_by_two_variables_is_a_matrix() -> None:
    cases = [
        case({"load": load, "users": users}, pages=users * 10.0)
        for load in ("text", "script")
        for users in (2, 4)
        if (load, users) != ("script", 4)
    ]
    (grid,) = grids_of(GridSpec("users", "load", ["pages"]), cases)
    assert grid["values"] == [[20, 20], [40, None]]
    lines = suite_table({"cases": cases, "grids": [grid]}).splitlines()
    assert lines[0] == "pages:"
    assert lines[1].split() == ["users", "\\", "load", "text", "script"]
    assert [line.split() for line in lines[3:]] == [["2", "20", "20"], ["4", "40", "-"]]


def test_pages_are_loaded_by_as_many_browsers_as_are_asked_for() -> None:
    by_load = {
        one.labels["load"]: one.spec.groups[0]
        for one in scenario.find("pages", {"browsers": 3}).cases
        if one.labels["users"] == 64
    }
    assert {(group.users, group.connections) for group in by_load.values()} == {(64, 3)}
    assert [call.weight for call in by_load["image-4.5m"].calls] == [3]
    assert len(by_load["composite"].calls) == 4


def test_holds_of_all_processes_are_read(tmp_path: Path) -> None:
    (first, second) = (tmp_path / "a", tmp_path / "b")
    for folder, held in ((first, [10, 2000]), (second, [500])):
        folder.mkdir()
        holds = Holds(folder)
        for ns in held:
            holds.note(ns)
    for file in second.iterdir():
        file.rename(first / "another")
    found = read(first)
    assert found.as_json() == Histogram.of([10, 2000, 500]).as_json()
