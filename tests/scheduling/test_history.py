from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.conf import Conf
from faircall.scheduling.errors import BadValue
from faircall.scheduling.history import HistoryRpcScheduler, default_thresholds
from faircall.scheduling.identity import Caller

from .strategies import unhurried


@unhurried
@given(st.lists(st.sampled_from("abcdefgh"), max_size=100), st.integers(1, 20))
def test_counts_are_those_of_the_last_calls(callers: list[str], length: int) -> None:
    scheduler = HistoryRpcScheduler(3, length)
    for number, name in enumerate(callers, start=1):
        scheduler.arrive(Caller(name))
        last = Counter(callers[max(0, number - length) : number])
        assert {name: scheduler.count(name) for name in last} == last
        assert len(scheduler._rows) == len(last)


def test_the_level_is_the_highest_whose_threshold_is_reached() -> None:
    scheduler = HistoryRpcScheduler(4, 100, [1, 2, 4])
    levels = []
    for _ in range(5):
        levels.append(scheduler.level_of(Caller("a")))
        scheduler.arrive(Caller("a"))
    assert levels == [0, 1, 2, 2, 3]


def test_service_users_do_not_fill_the_window() -> None:
    values = {
        "ipc.history-scheduler.history-length": "2",
        "ipc.history-scheduler.thresholds": "1",
        "ipc.history-scheduler.service-users": "svc",
    }
    scheduler = HistoryRpcScheduler.from_conf(2, Conf(values))
    scheduler.arrive(Caller("a"))
    for _ in range(5):
        scheduler.arrive(Caller("svc"))
    assert (scheduler.level_of(Caller("svc")), scheduler.level_of(Caller("a"))) == (0, 1)


def test_default_thresholds_follow_the_window() -> None:
    assert default_thresholds(4, 1000) == [50, 400, 750]
    assert default_thresholds(3, 1000) == [250, 500]
    assert default_thresholds(1, 1000) == []


@pytest.mark.parametrize(
    ("levels", "length", "thresholds"), [(0, 9, []), (2, 0, []), (2, 9, [1, 2])]
)
def test_what_does_not_fit_is_refused(levels: int, length: int, thresholds: list[int]) -> None:
    with pytest.raises(BadValue):
        HistoryRpcScheduler(levels, length, thresholds)
