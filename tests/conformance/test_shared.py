"""The shared table and the janitor's sweep, in one process, answer the recorded cases as Hadoop."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Judge
from .deviations import DEVIATIONS
from .not_shared import EVERY, NOT_SHARED, NotShared, rows_of
from .recorded import OWN, Case, Mismatch, cases, parameters, replay, same
from .shared_call_queue import SharedCallQueue
from .shared_port import NOT_EXPRESSED, answer
from .shared_queues import SharedFairCallQueue, drawn
from .shared_schedulers import SharedDecay, SharedHistory
from .shared_terms import in_shared_terms, reworded


def replayed(case: Case, build: Callable[[Case], Any]) -> list[Mismatch]:
    """What differs, step by step; the subject's descriptors are closed again."""
    built: list[Any] = []

    def make() -> Any:
        built.append(build(case))
        return built[0]

    try:
        found = replay(in_shared_terms(case), make, answer)
        for subject in built:
            if isinstance(subject, SharedFairCallQueue):
                found += _told(case, "expect_jmx", subject.jmx)
        return [_named(one) for one in found]
    finally:
        for subject in built:
            subject.port.close()


def _named(found: Mismatch) -> Mismatch:
    """What asks for a class or a port that a server cannot have is a step of its own."""
    impossible = str(found.answered).startswith(NOT_EXPRESSED)
    named = impossible and found.op in ("construct", "swap")
    return dataclasses.replace(found, op="not_expressed") if named else found


def _told(case: Case, field: str, told: Callable[[], object]) -> list[Mismatch]:
    if field not in case.fields or same(case.fields[field], told()):
        return []
    return [Mismatch(0, field, case.fields[field], told())]


def multiplexed(case: Case) -> list[Mismatch]:
    recorded, answered = reworded(case.fields["expect"]), answer(lambda: drawn(case))
    return [] if same(recorded, answered) else [Mismatch(0, "construct", recorded, answered)]


FILES: dict[str, Callable[[Case], list[Mismatch]]] = {
    "multiplexer.json": multiplexed,
    "fair_call_queue.json": lambda case: replayed(case, SharedFairCallQueue),
    "call_queue_manager.json": lambda case: replayed(case, SharedCallQueue),
    "decay_scheduler.json": lambda case: replayed(case, SharedDecay),
    "spec_derived/history_scheduler.json": lambda case: replayed(case, SharedHistory),
}


@parameters("hadoop", "multiplexer.json")
def test_multiplexer(case: Case, judge_shared: Judge) -> None:
    judge_shared(case, multiplexed(case))


@parameters("hadoop", "fair_call_queue.json")
def test_fair_call_queue(case: Case, judge_shared: Judge) -> None:
    judge_shared(case, replayed(case, SharedFairCallQueue))


@parameters("hadoop", "call_queue_manager.json")
def test_call_queue_manager(case: Case, judge_shared: Judge) -> None:
    judge_shared(case, replayed(case, SharedCallQueue))


@parameters("hadoop", "decay_scheduler.json")
def test_decay_scheduler(case: Case, judge_shared: Judge) -> None:
    judge_shared(case, replayed(case, SharedDecay))


@parameters("hadoop", "spec_derived/history_scheduler.json")
def test_history_scheduler(case: Case, judge_shared: Judge) -> None:
    judge_shared(case, replayed(case, SharedHistory))


@functools.cache
def differing(file: str, name: str) -> frozenset[str]:
    """The steps of one of the project's own cases that differ."""
    (case,) = (case for case in cases("hadoop", file, OWN) if case.name == name)
    return frozenset(found.op for found in FILES[file](case))


def needed(row: NotShared) -> tuple[list[str], list[str]]:
    """The project's own cases of a row: those that differ where the row says, and the others.

    Of a row for all cases no others than the first that differs is looked for.
    """
    differ: list[str] = []
    agree: list[str] = []
    for file in FILES:
        for case in cases("hadoop", file, OWN):
            if row in rows_of(case.component, case.name):
                (differ if differing(file, case.name) & row.ops else agree).append(case.name)
                if differ and row.pattern == EVERY:
                    return differ, agree
    return differ, agree


@pytest.mark.parametrize("row", NOT_SHARED, ids=lambda row: f"{row.component}-{row.pattern}")
def test_no_row_is_stale(row: NotShared) -> None:
    """Every case that a row names differs; a row for all cases has one that does.

    Cases that only other collections have stand among the deviations of the pure classes.
    """
    differ, agree = needed(row)
    if not differ and not agree:
        assert any((row.component, row.pattern) == (d.component, d.pattern) for d in DEVIATIONS)
        return
    assert differ, f"no case needs this row any more: {row}"
    if row.pattern != EVERY:
        assert not agree, f"these cases pass without this row: {agree}"


def test_a_wrong_answer_of_the_table_is_a_mismatch() -> None:
    """The comparison itself: a doctored case must not pass."""
    steps = [
        {"op": "put", "id": "a", "prio": 0, "expect": "ok"},
        {"op": "put", "id": "b", "prio": 0, "expect": "ok"},
        {"op": "poll", "expect": "b"},
        {"op": "overflowed", "expect": [1]},
    ]
    case = Case("fair_call_queue", "doctored", {"levels": 1, "capacity": 2, "steps": steps})
    found = replayed(case, SharedFairCallQueue)
    assert [(one.op, one.recorded, one.answered) for one in found] == [
        ("poll", "b", "a"),
        ("overflowed", [1], [0]),
    ]
