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

from .reader_world import World

START_NS = 1 << 50


class Queue:
    """The shard's counters, set by hand."""

    def __init__(self, world: World) -> None:
        self._q = world.shared.segment.q
        draws = world.shared.table.draws
        self._drawn, self._waiting = draws.drawn_word, draws.waiting_word
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


def left_ms(queue: Queue, waiting: int) -> float:
    """How long the handlers have to do while so many wait, after two samples with `waiting`."""
    rates = queue.rate
    queue._q[queue._waiting] = waiting
    left_ns = rates.left_ns()
    queue._q[queue._waiting] = 0
    return left_ns / 1e6


def test_handlers_have_calls_left_where_more_than_they_can_take_wait_all_the_time(
    queue: Queue,
) -> None:
    for _ in range(2):
        queue._q[queue._waiting] = 100
        queue.drains(50, SAMPLE_NS)  # 500 a second
    assert left_ms(queue, 100) == 200


def test_calls_that_came_together_are_no_long_queue_because_few_came_before(queue: Queue) -> None:
    """50 calls at 500 a second would be a tenth of one; these handlers were idle in between."""
    for waiting in (1, 100, 1, 1):
        queue._q[queue._waiting] = waiting
        queue.drains(50, SAMPLE_NS)
        assert left_ms(queue, 50) == 0
