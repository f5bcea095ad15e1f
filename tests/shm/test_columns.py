"""Counters with one writer each lose nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from faircall.shm.columns import Columns, Counter
from faircall.shm.layout import COUNTERS

from ..fault.kill import start, wait_for
from ..fault.world import SMALL, World
from .conftest import MakeWorld


@pytest.fixture
def columns(world: World) -> Columns:
    return world.shared.columns


def test_a_counter_is_the_sum_over_all_processes(columns: Columns) -> None:
    columns.add(0, Counter.CALLS)
    columns.add(1, Counter.CALLS, 41)
    columns.add(1, Counter.ANSWERED, 7)
    assert columns.total(Counter.CALLS) == 42
    assert columns.total(Counter.ANSWERED) == 7
    assert columns.counters[1, Counter.CALLS] == 41


def test_a_process_has_its_counters_at_hand(columns: Columns) -> None:
    own = columns.own(1)
    assert len(own) == COUNTERS
    own[Counter.FAILED] += 5
    assert columns.counters[1, Counter.FAILED] == 5
    assert columns.total(Counter.FAILED) == 5


def test_every_counter_has_a_word_of_its_own() -> None:
    assert len({int(counter) for counter in Counter}) == len(Counter) <= COUNTERS
    assert max(Counter) < COUNTERS


def test_every_process_and_counter_has_a_word_of_its_own(columns: Columns) -> None:
    for process in range(SMALL.processes):
        for counter in range(COUNTERS):
            columns.add(process, counter, process * 100 + counter)
    expected = [[p * 100 + c for c in range(COUNTERS)] for p in range(SMALL.processes)]
    assert columns.counters.tolist() == expected


def test_costs_and_calls_are_charged_per_identity(columns: Columns) -> None:
    columns.charge(0, 3, cost=10)
    columns.charge(1, 3, cost=5, calls=2)
    columns.charge(1, 4, cost=1)
    assert columns.cost_totals().tolist() == [0, 0, 0, 15, 1, 0, 0, 0]
    assert columns.call_totals().tolist() == [0, 0, 0, 3, 1, 0, 0, 0]


def test_the_last_row_of_the_last_process_is_within(columns: Columns) -> None:
    columns.charge(SMALL.processes - 1, SMALL.identities - 1, cost=9)
    assert columns.costs[-1, -1] == 9
    assert columns.counters.sum() == 0


def test_a_methods_figures_are_kept_per_handler(columns: Columns) -> None:
    columns.ran(1, 2, spent_ns=50, failed=False)
    columns.ran(1, 2, spent_ns=20, failed=True)
    columns.ran(0, 2, spent_ns=1, failed=False)
    assert columns.methods[1, 2].tolist() == (2, 1, 70, 50, 0, 0, 0, 0)
    assert columns.methods[0, 2].tolist() == (1, 0, 1, 1, 0, 0, 0, 0)
    assert columns.methods[1, 1].tolist() == (0,) * 8


def test_a_run_that_ended_with_its_handler_counts_once_however_often_it_is_told(
    columns: Columns,
) -> None:
    for mark in (7, 7, 8, 0xFFFF_FFFF, 0xFFFF_FFFF, 7):
        columns.died(1, 2, mark)
    assert columns.deaths()[1, 2] == 4
    assert columns.deaths().sum() == 4
    assert columns.methods[1, 2].tolist()[:6] == (0, 0, 0, 0, 0, 0)


def test_totals_survive_their_process(columns: Columns) -> None:
    assert wait_for(start(lambda: columns.add(0, Counter.CALLS, 5))) == 0
    assert wait_for(start(lambda: columns.add(0, Counter.CALLS, 5))) == 0
    assert columns.total(Counter.CALLS) == 10


def two_readers_charge(world: World, calls: int) -> None:
    """Two processes charge one user, `calls` each."""
    columns = world.shared.columns

    def charge(process: int) -> None:
        for _ in range(calls):
            columns.add(process, Counter.CALLS)
            columns.charge(process, 3, cost=2)

    pids = [start(partial(charge, process)) for process in (0, 1)]
    assert [wait_for(pid) for pid in pids] == [0, 0]
    assert columns.total(Counter.CALLS) == 2 * calls
    assert columns.cost_totals()[3] == 4 * calls
    assert columns.call_totals()[3] == 2 * calls


def test_two_processes_lose_nothing(world: World) -> None:
    two_readers_charge(world, 20_000)


@pytest.mark.slow
def test_two_processes_lose_nothing_of_a_million_each(make_world: MakeWorld) -> None:
    two_readers_charge(make_world(geometry=replace(SMALL, identities=64)), 1_000_000)


def test_costs_are_sums_modulo_2_64_and_what_is_taken_back_leaves_the_rest(
    columns: Columns,
) -> None:
    columns.charge(0, 3, 100)
    columns.charge(1, 3, -70, 0)
    columns.charge(1, 3, 5)
    assert int(columns.costs[1, 3]) == 2**64 - 65
    assert (int(columns.cost_totals()[3]), int(columns.call_totals()[3])) == (35, 2)


def test_a_methods_costs_and_squares_are_summed_over_the_handlers(columns: Columns) -> None:
    for handler, spent_ns, cost in ((0, 3, 10), (1, 4, -4)):
        columns.square(handler, 2, spent_ns)
        columns.ran(handler, 2, spent_ns, failed=False)
        columns.cost(handler, 2, cost)
    assert columns.samples(2) == (2, 7, 25.0)
    assert int(columns.methods["cost"][:, 2].sum()) == 6


def test_response_times_are_kept_per_handler_and_level(columns: Columns) -> None:
    columns.responded(1, 3, 50)
    columns.responded(1, 3, 20)
    assert columns.levels[1, 3].tolist() == (2, 70)
    assert int(columns.levels["count"].sum()) == 2
