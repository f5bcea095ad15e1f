"""The queues against models that are as plain as possible."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from faircall.scheduling.admission import Admission, backoff_form, overflow_form
from faircall.scheduling.errors import BadValue
from faircall.scheduling.multiplexer import WeightedRoundRobinMultiplexer
from faircall.scheduling.queues import FairCallQueue, LinkedBlockingQueue, QueueSettings, Scan

from .strategies import unhurried

LEVELS, CAPACITY, WEIGHTS = 3, 10, [3, 2, 1]


class Call(NamedTuple):
    number: int
    level: int
    identity: str = "a"


class FairQueueMachine(RuleBasedStateMachine):
    """A fair queue and three lists."""

    def __init__(self) -> None:
        super().__init__()
        settings = QueueSettings(levels=LEVELS, capacity=CAPACITY)
        self.queue: FairCallQueue[Call] = FairCallQueue(
            settings, WeightedRoundRobinMultiplexer(WEIGHTS)
        )
        self.lists: list[list[Call]] = [[] for _ in range(LEVELS)]
        self.overflowed = [0] * LEVELS
        self.draws = [0, 0, 0, 1, 1, 2]
        self.put = 0

    def place(self, level: int, counted: int) -> bool:
        for candidate in range(level, LEVELS):
            if len(self.lists[candidate]) < self.queue.capacities[candidate]:
                self.lists[candidate].append(Call(self.put, level))
                return True
            self.overflowed[candidate] += candidate < counted
        return False

    @rule(level=st.integers(0, LEVELS - 1), blocking=st.booleans())
    def insert(self, level: int, blocking: bool) -> None:
        self.put += 1
        placed = self.place(level, LEVELS - 1 if blocking else LEVELS)
        refusal = Admission.BLOCKED if blocking else overflow_form(level, LEVELS - 1, False)
        operation = self.queue.put if blocking else self.queue.add
        assert operation(Call(self.put, level)) is (Admission.QUEUED if placed else refusal)

    @rule(level=st.integers(0, LEVELS - 1))
    def offer(self, level: int) -> None:
        self.put += 1
        has_room = len(self.lists[level]) < self.queue.capacities[level]
        if has_room:
            self.lists[level].append(Call(self.put, level))
        assert self.queue.offer(Call(self.put, level)) is has_room

    @rule()
    def poll(self) -> None:
        if not any(self.lists):
            assert self.queue.poll() is None
            return
        drawn = self.draws[0]
        self.draws.append(self.draws.pop(0))
        waiting = self.lists[drawn] or next(filter(None, self.lists))
        assert self.queue.poll() == waiting.pop(0)

    @rule(most=st.one_of(st.none(), st.integers(0, 4)))
    def drain(self, most: int | None) -> None:
        expected = [call for calls in self.lists for call in calls][:most]
        assert self.queue.drain(most) == expected
        self.lists = [[call for call in calls if call not in expected] for calls in self.lists]

    @invariant()
    def sees_the_same(self) -> None:
        assert self.queue.sizes == [len(calls) for calls in self.lists]
        assert self.queue.overflowed == self.overflowed
        assert self.queue.remaining() == CAPACITY - len(self.queue)
        assert self.queue.peek() == next((calls[0] for calls in self.lists if calls), None)


TestFairCallQueue = FairQueueMachine.TestCase
TestFairCallQueue.settings = unhurried


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_a_linked_queue_is_a_bounded_list(steps: list[bool], capacity: int) -> None:
    queue: LinkedBlockingQueue[Call] = LinkedBlockingQueue(capacity)
    calls: list[Call] = []
    for number, putting in enumerate(steps):
        if putting:
            outcome = queue.put(Call(number, 9))
            assert outcome is (Admission.QUEUED if len(calls) < capacity else Admission.BLOCKED)
            calls += [Call(number, 9)] if outcome is Admission.QUEUED else []
        else:
            assert queue.poll() == (calls.pop(0) if calls else None)
        assert (queue.sizes, queue.remaining()) == ([len(calls)], capacity - len(calls))
        assert queue.peek() == (calls[0] if calls else None)
    assert queue.drain(2) == calls[:2]


def test_after_an_empty_draw_the_scan_starts_at_the_top_or_at_the_cursor() -> None:
    taken: dict[str, list[int]] = {}
    scans: tuple[Scan, ...] = ("top", "cursor")
    for scan in scans:
        settings = QueueSettings(levels=3, capacity=30, scan=scan)
        queue: FairCallQueue[Call] = FairCallQueue(settings, WeightedRoundRobinMultiplexer([1] * 3))
        for level in (0, 2, 0, 2):
            queue.put(Call(0, level))
        taken[scan] = [call.level for call in (queue.poll(), queue.poll(), queue.poll()) if call]
    assert taken == {"top": [0, 0, 2], "cursor": [0, 2, 2]}


def test_in_turn_service_is_within_a_level() -> None:
    settings = QueueSettings(levels=2, capacity=20, in_turn=True)
    queue: FairCallQueue[Call] = FairCallQueue(settings, WeightedRoundRobinMultiplexer([2, 1]))
    for number, name in enumerate("aaab"):
        queue.put(Call(number, 0, name))
    assert [call.identity for call in queue.drain()] == ["a", "b", "a", "a"]


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_queue_without_room_is_refused(capacity: int) -> None:
    with pytest.raises(BadValue):
        LinkedBlockingQueue[Call](capacity)
    with pytest.raises(BadValue):
        FairCallQueue[Call](QueueSettings(levels=1, capacity=capacity))


def test_refusals_close_the_connections_that_hadoop_closes() -> None:
    assert [overflow_form(level, 1, failover=False) for level in (0, 1)] == [
        Admission.KEEPALIVE,
        Admission.DISCONNECT,
    ]
    assert overflow_form(0, 1, failover=True) is backoff_form(True) is Admission.FAILOVER
    assert backoff_form(False) is Admission.DISCONNECT
    closing = {form for form in Admission if form.closes_connection}
    assert closing == {form for form in Admission if form.refused} - {Admission.KEEPALIVE}
