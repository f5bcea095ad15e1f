"""The rows of the budgets: keys, limits that change, and debts that nothing forgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from faircall.shm.limiter_counters import L_CAP, L_HELD, L_PERIOD, L_USED, MOST_ROOM
from faircall.shm.limiters import KEPT_NS, Limiters
from faircall.shm.terms import (
    BYTES,
    CALLS,
    PACED,
    RELATIVE,
    Kind,
    Terms,
    key_of,
    kind_of,
    number_of,
)

from ..fault.world import World

S = 1_000_000_000
TEN = Terms(limits=(10, -1, -1))
NOBODY = np.array([], dtype=np.intp)


@pytest.fixture
def rows(world: World) -> Iterator[Limiters]:
    with world.table.queue_lock:
        yield world.table.limiters


def made(rows: Limiters, terms: Terms = TEN, caller: int = 0) -> int:
    return rows.make(key_of(Kind.PAIR, 3), caller, terms, 1, 0, 0)


def used(rows: Limiters, row: int, now_ns: int, d: int = CALLS) -> int:
    rows.renew(rows.at(row), now_ns)
    return rows.q[rows.at(row) + L_USED + d] & 0xFFFF_FFFF


def charge(rows: Limiters, row: int, amount: int, now_ns: int, d: int = CALLS) -> None:
    rows.renew(rows.at(row), now_ns)
    rows.charge(rows.at(row), d, amount)


def test_a_row_is_found_by_kind_number_and_caller(rows: Limiters) -> None:
    row = made(rows, caller=77)
    assert rows.find(key_of(Kind.PAIR, 3), 77) == row
    assert rows.find(key_of(Kind.PAIR, 3), 78) == rows.find(key_of(Kind.METHOD, 3), 77) == -1
    assert (kind_of(key_of(Kind.PAIR, 3)), number_of(key_of(Kind.PAIR, 3))) == (Kind.PAIR, 3)
    assert rows.is_key(row, key_of(Kind.PAIR, 3), 77)


def test_a_full_table_makes_no_row(rows: Limiters) -> None:
    assert [made(rows, caller=n) for n in (1, 2, 3)] == [0, 1, -1]


def test_what_is_overdrawn_is_paid_by_the_next_periods(rows: Limiters) -> None:
    row = made(rows)
    charge(rows, row, 30, 0)
    assert rows.opens_ns(rows.at(row)) == 3 * S
    assert [used(rows, row, n * S) for n in range(4)] == [30, 20, 10, 0]


def test_paced_the_next_call_waits_for_its_part(rows: Limiters) -> None:
    row = made(rows, replace(TEN, flags=PACED))
    charge(rows, row, 1, 0)
    assert rows.opens_ns(rows.at(row)) == S // 10
    assert rows.room(rows.at(row), CALLS, S // 10 - 1) == 0
    assert rows.room(rows.at(row), CALLS, S // 10) == 1


def test_the_same_terms_again_change_nothing(rows: Limiters) -> None:
    row = made(rows)
    charge(rows, row, 7, 0)
    rows.apply(row, TEN, 2, S // 2)
    assert used(rows, row, S // 2) == 7


def test_other_terms_pay_with_the_old_ones_first_and_keep_the_rest(rows: Limiters) -> None:
    row = made(rows)
    charge(rows, row, 30, 0)
    rows.apply(row, replace(TEN, limits=(100, -1, -1)), 2, S)
    assert used(rows, row, S) == 20
    rows.apply(row, replace(TEN, period_ns=10 * S), 3, S)
    assert used(rows, row, S) == 20
    assert rows.opens_ns(rows.at(row)) == 20 * S


def test_a_limit_that_is_lifted_drops_its_counter(rows: Limiters) -> None:
    row = made(rows)
    charge(rows, row, 30, 0)
    rows.apply(row, Terms(), 2, 0)
    rows.apply(row, TEN, 3, 0)
    assert used(rows, row, 0) == 0


@pytest.mark.parametrize("point", range(9))
def test_a_change_that_was_cut_short_is_done_again(rows: Limiters, point: int) -> None:
    """Whatever was stored of it, the debt is there afterwards: nobody can pay it meanwhile."""
    row, after = made(rows), Terms(limits=(5, 4, -1), period_ns=S // 4)
    charge(rows, row, 31, 0)
    stores = 0

    class Dies(Exception):
        pass

    class Words:
        def __getitem__(self, at: int) -> int:
            return q[at]

        def __setitem__(self, at: int, value: int) -> None:
            nonlocal stores
            stores += 1
            if stores > point:
                raise Dies
            q[at] = value

    q = rows.q
    rows.q = Words()  # type: ignore[assignment]
    with pytest.raises(Dies):
        rows.apply(row, after, 2, S)
    rows.q = q
    rows.renew(rows.at(row), 100 * S if not q[rows.at(row) + L_PERIOD] else S)
    rows.apply(row, after, 2, S)
    assert used(rows, row, S) == 21
    assert q[rows.at(row) + L_PERIOD] == S // 4


def test_a_relative_limit_counts_from_the_next_renewal_on(rows: Limiters) -> None:
    row = made(rows, replace(TEN, flags=RELATIVE))
    rows.averaged(row, (5.7, 0.0), S // 2)
    charge(rows, row, 20, S // 2)
    assert rows.opens_ns(rows.at(row)) == S, "10 are paid then, and 15 may be used"
    assert used(rows, row, S) == 10
    assert rows.room(rows.at(row), CALLS, S) == 5
    rows.averaged(row, (1.0, 0.0), S)
    rows.renew(rows.at(row), 2 * S)
    assert rows.room(rows.at(row), CALLS, 2 * S) == 11


def test_a_debt_has_a_cap_if_it_is_given_one(rows: Limiters) -> None:
    row = made(rows, replace(TEN, debt_periods=1))
    charge(rows, row, 100, 0)
    assert used(rows, row, 0) == 20


def test_only_rows_of_callers_that_owe_nothing_are_given_away(rows: Limiters) -> None:
    later = 5 * S
    owing = made(rows, replace(TEN, limits=(10, 10, -1)), caller=1)
    charge(rows, owing, 100, 0, BYTES)
    free = made(rows, caller=2)
    charge(rows, free, 50, 0)
    assert rows.give_away(NOBODY, KEPT_NS - 1) == 0, "a reader may be about to name it"
    rows.q[rows.at(free) + L_HELD] = 1
    assert rows.give_away(NOBODY, later) == 0
    rows.q[rows.at(free) + L_HELD] = 0
    assert rows.give_away(np.array([free]), later) == 0, "a slot names it"
    assert rows.give_away(NOBODY, later) == 1
    assert [rows.find(key_of(Kind.PAIR, 3), n) for n in (1, 2)] == [owing, -1]


def test_a_call_looks_at_so_many_rows_and_the_next_one_goes_on(
    rows: Limiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircall.shm.limiters.LOOKED_AT_ONCE", 2)
    later = 5 * S
    for caller in range(1, rows.count + 1):
        made(rows, caller=caller)
    freed = [rows.give_away(NOBODY, later) for _ in range(-(-rows.count // 2))]
    assert freed == [2] * (rows.count // 2) + [1] * (rows.count % 2)
    assert rows.callers() == rows.give_away(NOBODY, later) == 0


def test_how_many_calls_go_before_a_time(rows: Limiters) -> None:
    row = made(rows, replace(TEN, limits=(10, -1, -1)))
    charge(rows, row, 14, 0)
    at = rows.at(row)
    assert [rows.goes_before(at, n * S, 0) for n in (1, 2, 3)] == [0, 6, 16]
    assert rows.goes_before(at, 3 * S, 2 * S) == 10, "what was not used is not carried"
    assert rows.goes_before(rows.at(made(rows, Terms(), caller=2)), S, 0) == MOST_ROOM


def test_a_cap_of_running_calls_is_a_term_as_well(rows: Limiters) -> None:
    row = made(rows)
    rows.apply(row, replace(TEN, running=3), 2, 0)
    assert rows.q[rows.at(row) + L_CAP] == 3
    assert rows.free(rows.at(row)) == 3
