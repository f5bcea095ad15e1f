from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.saturation import clamp64, saturating_add, saturating_sum, wrap64
from faircall.scheduling.units import TimeUnit, metrics_time_unit

from .strategies import longs, unhurried


@unhurried
@given(st.lists(st.tuples(longs, longs), min_size=1))
def test_a_vector_sum_is_the_clamped_sum(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs, np.int64).T
    assert saturating_add(left, right).tolist() == [clamp64(a + b) for a, b in pairs]


@unhurried
@given(st.lists(longs))
def test_a_total_is_the_clamped_total(values: list[int]) -> None:
    assert saturating_sum(np.array(values, np.int64)) == clamp64(sum(values))


@given(longs, longs)
def test_products_wrap_as_in_two_s_complement(left: int, right: int) -> None:
    with np.errstate(over="ignore"):
        assert wrap64(left * right) == int(np.int64(left) * np.int64(right))


def test_a_conversion_truncates_towards_zero_and_saturates() -> None:
    assert TimeUnit.MILLISECONDS.convert(1_999_999, TimeUnit.NANOSECONDS) == 1
    assert TimeUnit.MILLISECONDS.convert(-1_999_999, TimeUnit.NANOSECONDS) == -1
    assert TimeUnit.NANOSECONDS.convert(-(2**62), TimeUnit.DAYS) == -(2**63)


def test_a_metrics_unit_that_is_none_is_milliseconds() -> None:
    names = ("MICROSECONDS", "microseconds", "", None)
    assert [metrics_time_unit(name).name for name in names] == [
        "MICROSECONDS",
        "MILLISECONDS",
        "MILLISECONDS",
        "MILLISECONDS",
    ]
