from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.backoff import (
    LevelLoad,
    Reason,
    expected_wait_ms,
    level_rate,
    refusal,
    retry_after_ms,
    smoothed_rate,
)
from faircall.scheduling.queues import FairCallQueue, QueueSettings, Scan

SECOND = 10**9


class Call(NamedTuple):
    level: int
    identity: str = "a"


def test_a_level_drains_by_its_draws_and_those_that_fall_to_it() -> None:
    weights = [8, 4, 2, 1]
    assert level_rate(1500, weights, [9, 9, 9, 9], 3) == 100
    assert level_rate(1500, weights, [0, 0, 9, 9], 3) == 100
    assert level_rate(1500, weights, [0, 0, 9, 9], 2) == 1400
    assert level_rate(1500, weights, [0, 0, 0, 0], 3) == 1500
    assert level_rate(1500, weights, [9, 0, 9, 0], 2, scan="cursor") == 600
    assert level_rate(1500, [0, 0], [0, 0], 1) == 1500


@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any),
    st.sampled_from(["top", "cursor"]),
)
def test_the_rates_of_busy_levels_are_those_of_a_queue(sizes: list[int], scan: Scan) -> None:
    """A queue that is kept at these sizes serves each level at the rate that is foretold."""
    weights = [8, 4, 2, 1]
    settings = QueueSettings(levels=4, capacity=100, scan=scan)
    queue: FairCallQueue[Call] = FairCallQueue(settings)
    for level, size in enumerate(sizes):
        for _ in range(size):
            queue.put(Call(level))
    served: Counter[int] = Counter()
    for _ in range(150):
        call = queue.poll()
        assert call is not None
        served[call.level] += 1
        queue.put(call)
    busy = [level for level in range(4) if sizes[level]]
    assert [served[level] for level in busy] == [
        level_rate(150, weights, sizes, level, scan) for level in busy
    ]


def test_a_rate_follows_what_drained_and_forgets_by_half_lives() -> None:
    assert smoothed_rate(0, 100, SECOND, SECOND) == 50
    assert smoothed_rate(100, 0, 2 * SECOND, SECOND) == 25
    rate = 0.0
    for _ in range(40):
        rate = smoothed_rate(rate, 30, SECOND // 10, SECOND)
    assert rate == pytest.approx(300, rel=0.1)


def test_nothing_ahead_is_no_wait_and_nothing_drained_is_no_end() -> None:
    assert expected_wait_ms(0, 0) == 0
    assert expected_wait_ms(1, 0) == math.inf
    assert expected_wait_ms(50, 1000) == 50


@given(st.integers(-5, 10**9), st.floats(0, 1e9))
def test_a_retry_is_bounded_and_no_earlier_than_the_wait(excess: int, rate: float) -> None:
    after = retry_after_ms(excess, rate)
    assert 10 <= after <= 10_000
    assert after >= min(expected_wait_ms(excess, rate), 10_000)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (LevelLoad(ahead=99, has_room=True, rate=1000), None),
        (LevelLoad(ahead=200, has_room=True, rate=1000), None),
        (
            LevelLoad(ahead=99, has_room=False, rate=20, responds_slowly=True),
            (Reason.RESPONSE_TIME, "decay-scheduler.backoff.responsetime.thresholds", 5000),
        ),
        (
            LevelLoad(ahead=99, has_room=False, rate=20),
            (Reason.QUEUE_FULL, "callqueue.capacity", 50),
        ),
        (
            LevelLoad(ahead=300, has_room=True, rate=1000),
            (Reason.QUEUE_FULL, "callqueue.max-wait-ms", 100),
        ),
        (
            LevelLoad(ahead=1, has_room=True, rate=0),
            (Reason.QUEUE_FULL, "callqueue.max-wait-ms", 10_000),
        ),
    ],
)
def test_a_call_is_refused_for_the_first_reason_that_holds(
    load: LevelLoad, expected: tuple[Reason, str, int] | None
) -> None:
    found = refusal(load, max_wait_ms=200, slow_retry_ms=5000)
    assert (found and (found.reason, found.rule, found.retry_after_ms)) == expected


def test_without_a_bound_on_the_wait_only_room_counts() -> None:
    load = LevelLoad(ahead=10**6, has_room=True, rate=0)
    assert refusal(load, max_wait_ms=None, slow_retry_ms=5000) is None
