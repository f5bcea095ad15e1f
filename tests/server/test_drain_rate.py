"""When to come back."""

from __future__ import annotations

import pytest

from faircall.server.reader.drain_rate import (
    LEAST_MS,
    MOST_MS,
    SAMPLE_NS,
    STALE_NS,
    UNKNOWN_MS,
    DrainRate,
)
from faircall.shm.layout import SHARD

from .reader_world import World

START_NS = 1 << 50


class Queue:
    """The shard's counters, set by hand."""

    def __init__(self, world: World) -> None:
        segment = world.shared.segment
        self._q = segment.q
        self._drawn = segment.word(segment.layout.shard, SHARD, "drawn")
        self._waiting = segment.word(segment.layout.shard, SHARD, "waiting")
        self.rate = DrainRate(world.shared)
        self.now_ns = START_NS
        self.rate.observe(self.now_ns)

    def drains(self, calls: int, ns: int) -> None:
        self._q[self._drawn] += calls
        self.now_ns += ns
        self.rate.observe(self.now_ns)

    def waiting(self, calls: int) -> int:
        """`retry_after_ms` while so many wait."""
        self._q[self._waiting] = calls
        answer = self.rate.retry_after_ms()
        self._q[self._waiting] = 0
        return answer


@pytest.fixture
def queue(world: World) -> Queue:
    return Queue(world)


def test_it_is_what_waits_by_the_rate_at_which_it_drains(queue: Queue) -> None:
    queue.drains(100, 200_000_000)  # 500 per second
    assert queue.waiting(1000) == 2000


def test_it_is_bounded(queue: Queue) -> None:
    queue.drains(100, SAMPLE_NS)
    assert queue.waiting(0) == LEAST_MS
    assert queue.waiting(10_000_000) == MOST_MS


def test_before_the_first_sample_it_is_not_known(queue: Queue) -> None:
    queue.drains(100, SAMPLE_NS - 1)
    assert queue.waiting(1000) == UNKNOWN_MS


def test_nothing_drains_and_nothing_is_known(queue: Queue) -> None:
    queue.drains(0, SAMPLE_NS)
    assert queue.waiting(1000) == UNKNOWN_MS


def test_the_rate_of_an_idle_hour_says_nothing_about_a_burst(queue: Queue) -> None:
    queue.drains(5000, 3_600_000_000_000)
    assert queue.waiting(1000) == UNKNOWN_MS
    queue.drains(100, SAMPLE_NS)
    assert queue.waiting(1000) == 1000


def test_a_sample_is_kept_until_the_next_is_long_enough(queue: Queue) -> None:
    queue.drains(100, SAMPLE_NS)
    queue.drains(0, SAMPLE_NS // 2)
    assert queue.waiting(1000) == 1000
    queue.drains(50, SAMPLE_NS // 2)
    assert queue.waiting(1000) == 2000
    queue.drains(10, STALE_NS - 1)
    assert queue.waiting(100) > 9000
