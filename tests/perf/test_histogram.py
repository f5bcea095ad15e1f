"""Buckets, quantiles and the .hgrm form of histograms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.perf.bench.histogram import BUCKETS, Histogram, bucket_of, hgrm, lowest

VALUES = st.lists(st.integers(0, 10**12), min_size=1, max_size=200)


@given(st.integers(0, 2**42))
def test_a_value_lies_in_its_bucket(value: int) -> None:
    bucket = bucket_of(value)
    assert lowest(bucket) <= value < lowest(bucket + 1)


def test_what_is_too_large_is_in_the_last_bucket() -> None:
    assert bucket_of(2**62) == BUCKETS - 1


@given(VALUES, st.floats(0.001, 1))
def test_a_quantile_is_off_by_less_than_two_percent(values: list[int], quantile: float) -> None:
    exact = sorted(values)[math.ceil(quantile * len(values)) - 1]
    assert Histogram.of(values).quantile(quantile) == pytest.approx(exact, rel=0.017, abs=1)


@given(VALUES, VALUES)
def test_a_sum_is_that_of_all_values(some: list[int], others: list[int]) -> None:
    both = Histogram.of(some) + Histogram.of(others)
    assert both.as_json() == Histogram.of(some + others).as_json()
    assert Histogram.from_json(both.as_json()).as_json() == both.as_json()


def test_no_values_have_no_quantile() -> None:
    assert math.isnan(Histogram().quantile(0.5))


def test_the_distribution_ends_at_the_largest_value() -> None:
    lines = hgrm(Histogram.of([1_000_000] * 99 + [5_000_000])).splitlines()
    assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    assert lines[2].split()[1:] == ["0.990000000000", "99", "100.00"]
    assert lines[3].split() == ["5.000", "1.000000000000", "100"]
    assert "Max     =        5.000, Total count    =          100" in lines[5]
