"""The vectorised arithmetic against the definition, one row at a time, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling import decay
from faircall.scheduling.saturation import clamp64

from .strategies import costs, factors, longs, shares, unhurried


@unhurried
@given(st.lists(longs, min_size=1), longs, st.lists(shares, max_size=9))
def test_levels_of_many_are_the_levels_of_each(
    decayed: list[int], total: int, thresholds: list[float]
) -> None:
    levels = decay.levels_of(np.array(decayed, np.int64), total, thresholds)
    assert levels.dtype == np.uint8
    assert levels.tolist() == [decay.level_of(cost, total, thresholds) for cost in decayed]


@unhurried
@given(st.lists(st.tuples(longs, longs), min_size=1), factors)
def test_a_sweep_truncates_the_product_of_doubles(
    rows: list[tuple[int, int]], factor: float
) -> None:
    decayed, charged = np.array(rows, np.int64).T
    swept = decay.sweep(charged, np.zeros_like(charged), decayed, factor)
    assert swept.tolist() == [int(float(clamp64(old + new)) * factor) for old, new in rows]


@unhurried
@given(st.lists(st.tuples(costs, st.integers(0, 2**64 - 1)), min_size=1), factors)
def test_a_sweep_is_right_across_a_wrap_of_unsigned_totals(
    rows: list[tuple[int, int]], factor: float
) -> None:
    charged = np.array([cost for cost, _ in rows], np.uint64)
    seen = np.array([start for _, start in rows], np.uint64)
    nothing = np.zeros(len(rows), np.int64)
    swept = decay.sweep(seen + charged, seen, nothing, factor)
    assert swept.tolist() == [int(float(cost) * factor) for cost, _ in rows]


def test_a_sweep_changes_nothing_in_place() -> None:
    totals, seen, decayed = np.array([[10], [4], [6]], np.int64)
    assert decay.sweep(totals, seen, decayed, 0.5).tolist() == [6]
    assert (totals.tolist(), seen.tolist(), decayed.tolist()) == ([10], [4], [6])


def test_costs_become_doubles_before_the_division() -> None:
    """2^54 + 6 of 2^55 + 16 is just below one half; as doubles it is exactly one half."""
    a, b = 18014398509481990, 18014398509481994
    assert a / (a + b) < 0.5
    assert decay.level_of(a, a + b, [0.5]) == 1


@unhurried
@given(st.lists(costs.filter(bool), min_size=1, max_size=50), st.integers(2, 10))
def test_shares_bound_how_many_can_be_in_the_last_level(users: list[int], levels: int) -> None:
    """By default the last level begins at half of the total, so it holds at most two."""
    total = sum(users)
    thresholds = decay.default_thresholds(levels)
    found = [decay.level_of(cost, total, thresholds) for cost in users]
    assert found.count(levels - 1) <= 2


@pytest.mark.parametrize(
    ("passed_ms", "due"), [(-3, 0), (0, 0), (4999, 0), (5000, 1), (9999, 1), (17_000, 3)]
)
def test_sweeps_are_due_once_per_period(passed_ms: int, due: int) -> None:
    start = 10**15
    assert decay.sweeps_due(start, start + passed_ms * 1_000_000, 5000) == due


def test_recovery_takes_the_sweeps_that_the_arithmetic_says() -> None:
    assert decay.sweeps_until(1000, 100, 0.5) == 4  # 500, 250, 125, 62
    assert decay.sweeps_until(1000, 0, 0.5) == 10
    assert decay.sweeps_until(100, 100, 0.5) == 0
