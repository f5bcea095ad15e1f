from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.latencies import (
    BUCKETS,
    LAST,
    LINEAR,
    Histogram,
    bucket_of,
    lower_ns,
)

HOUR_NS = 3600 * 10**9


def histogram(*times_ns: int) -> Histogram:
    counts = np.zeros(BUCKETS, np.uint64)
    for ns in times_ns:
        counts[bucket_of(ns)] += 1
    return Histogram(counts, sum(times_ns))


def test_every_bucket_begins_where_the_one_before_ends() -> None:
    for bucket in range(1, BUCKETS):
        assert bucket_of(lower_ns(bucket)) == bucket
        assert bucket_of(lower_ns(bucket) - 1) == bucket - 1


def test_buckets_from_a_microsecond_on_are_an_eighth_of_their_beginning_at_most() -> None:
    for bucket in range(LINEAR // 2, LAST):
        low, high = lower_ns(bucket), lower_ns(bucket + 1)
        assert Fraction(high - low, low) <= Fraction(1, 8)


def test_an_hour_has_a_bucket_with_an_end_and_more_than_64_minutes_has_none() -> None:
    assert bucket_of(HOUR_NS) < LAST
    assert bucket_of(65 * 60 * 10**9) == bucket_of(1 << 63) == LAST


@given(st.lists(st.integers(0, HOUR_NS), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_lies_in_the_bucket_of_the_time_that_it_is(times: list[int], q: float) -> None:
    exact = sorted(times)[max(1, math.ceil(q * len(times))) - 1]
    found = histogram(*times).quantile(q)
    assert found is not None
    assert lower_ns(bucket_of(exact)) < found <= lower_ns(bucket_of(exact) + 1)


def test_times_of_one_bucket_are_taken_to_be_spread_evenly() -> None:
    found = histogram(*[1 << 20] * 4)
    low, width = 1 << 20, 1 << 17
    assert [found.quantile(q) for q in (0, 0.25, 0.5, 1)] == [
        low + width / 4, low + width / 4, low + width / 2, low + width,
    ]  # fmt: skip


def test_nothing_has_no_quantile_and_no_mean() -> None:
    assert Histogram.empty().quantile(0.5) is None
    assert Histogram.empty().mean_ns is None
    assert Histogram.empty().count == 0


def test_the_open_bucket_counts_as_its_least_time() -> None:
    assert histogram(1 << 50).quantile(0.99) == lower_ns(LAST)


def test_sum_count_and_mean_are_of_all() -> None:
    both = histogram(1000, 3000) + histogram(5000)
    assert (both.count, both.sum_ns, both.mean_ns) == (3, 9000, 3000.0)


@pytest.mark.parametrize("bound", [1 << 14, 1 << 20, 1 << 39])
def test_coarse_counts_at_an_edge_are_exact(bound: int) -> None:
    assert histogram(bound - 1, bound, bound + 1, 5).at_most([bound]) == [2]
