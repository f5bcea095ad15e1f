from __future__ import annotations

import math

import pytest

from faircall.scheduling.slow_calls import LEAST_SAMPLES, slow_above


def limit(times: list[int], threshold: float = 0.0) -> float:
    return slow_above(len(times), sum(times), float(sum(t * t for t in times)), threshold)


def test_with_1024_calls_or_fewer_none_is_slow() -> None:
    assert limit([10] * LEAST_SAMPLES) == math.inf
    assert limit([10] * (LEAST_SAMPLES + 1)) == 10


def test_slow_is_beyond_three_deviations_of_the_mean() -> None:
    times = [8, 12] * 1000
    assert limit(times) == pytest.approx(10 + 3 * 2)


def test_the_threshold_raises_the_limit_and_never_lowers_it() -> None:
    times = [8, 12] * 1000
    assert limit(times, 15) == pytest.approx(16)
    assert limit(times, 100) == 100
