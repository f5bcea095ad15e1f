from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.response_time import Mode, ResponseTimes, backed_off, true_means

from .strategies import factors, unhurried


def steady(mode: Mode, response_time: int, windows: int) -> float:
    """The mean after `windows` of three equal calls each."""
    times = ResponseTimes(1, mode)
    for _ in range(windows):
        for _ in range(3):
            times.record(0, response_time)
        times.fold(0.5)
    return float(times.mean[0])


def test_the_mean_of_steady_calls_is_their_time_only_in_the_guide_s_mode() -> None:
    assert steady("guide", 10, windows=20) == 10.0
    assert steady("hadoop", 10, windows=20) == pytest.approx(20.0, rel=1e-5)


@unhurried
@given(st.lists(st.lists(st.integers(0, 10**6), max_size=5), max_size=10), factors)
def test_a_true_mean_lies_among_the_times_that_went_into_it(
    windows: list[list[int]], factor: float
) -> None:
    mean, weight = np.zeros(1), np.zeros(1)
    times: list[int] = []
    for window in windows:
        times += window
        total, count = np.array([[sum(window)], [len(window)]], np.int64)
        mean, weight = true_means(mean, weight, total, count, factor)
        if window:
            assert float(mean[0]) <= max(times) * (1 + 1e-9)
            assert float(weight[0]) >= len(window)


def test_what_an_idle_level_holds_back_is_let_in_again() -> None:
    times = ResponseTimes(2, "guide")
    times.record(0, 12_000)
    times.fold(0.5)
    assert [times.backs_off(level, [10_000, 10_000]) for level in (0, 1)] == [False, True]
    times.fold(0.5)
    assert not times.backs_off(1, [10_000, 10_000])


def test_the_mode_decides_whether_a_slow_level_refuses_its_own_calls() -> None:
    mean, thresholds = np.array([1.0, 12.0, 1.0]), np.array([10.0, 10.0, 10.0])
    assert backed_off(mean, thresholds, "hadoop").tolist() == [False, True, True]
    assert backed_off(mean, thresholds, "guide").tolist() == [False, False, True]
    assert backed_off(mean, mean, "hadoop").tolist() == [False, False, False]


@pytest.mark.parametrize("mode", ["guide", "hadoop"])
def test_a_factor_of_zero_forgets_the_means_before(mode: Mode) -> None:
    times = ResponseTimes(1, mode)
    for response_time in (10, 4):
        times.record(0, response_time)
        times.fold(0.0)
    assert times.mean.tolist() == [4.0]
    times.fold(0.0)
    assert (times.mean.tolist(), times.last_count.tolist()) == ([0.0], [0])
