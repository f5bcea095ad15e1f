"""Random sequences of operations, some of which are cut short, against a simple model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from faircall.shm.answers import WITHDRAWN
from faircall.shm.draws import RESERVED, SERVICE
from faircall.shm.layout import Geometry
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import HELD, QUEUED, STATE_MASK

from .calls import Call
from .kill import Fate, meet
from .model import QueueModel
from .world import World

WIDE = Geometry(
    readers=2,
    handlers=2,
    slots=8,
    levels=4,
    turns=1024,
    identities=8,
    methods=2,
    limiters=2,
    small_pages=96,
    large_pages=4,
)
POLICIES = [
    QueuePolicy(weights=(4, 2, 1), capacities=(4, 3, 8), max_principal=6),
    QueuePolicy(weights=(4, 2, 1), capacities=(4, 3, 8), max_principal=6, in_turn=False),
    QueuePolicy(weights=(1, 3), capacities=(3, 9), max_principal=16),
    QueuePolicy(weights=(4, 2), capacities=(4, 8), max_principal=6, lane_shares=(500, 300)),
    QueuePolicy(weights=(2, 1), capacities=(2, 8), max_principal=9, lane_shares=(0, 1000)),
]
LANES = (WIDE.levels + SERVICE, WIDE.levels + RESERVED)
NUMBERS = st.integers(0, 1)  # of a reader, a handler or a limiter
POINTS = st.integers(1, 1500)
KINDS = st.fixed_dictionaries(
    {
        "level": st.sampled_from([0, 1, 2, 0, 1, 2, *LANES]),
        "who": st.integers(1, 3),
        "cls": st.integers(0, 1),
        "idempotent": st.booleans(),
        "limiters": st.sampled_from([(), (), (), (0,), (1,), (1, 0)]),
        "asks": st.sampled_from([10, 10, 5000]),
        "answers": st.sampled_from([10, 6000]),
        "expected_ns": st.sampled_from([0, 70_000]),
    }
)


class Queue(RuleBasedStateMachine):
    """Two readers and two handlers, of which now and then one dies."""

    @initialize(policy=st.sampled_from(POLICIES))
    def begin(self, policy: QueuePolicy) -> None:
        self.world = World(policy, WIDE)
        self.model = QueueModel(policy)
        self.model.learn(self.world)
        self.now_ns = 1

    # -- operations ------------------------------------------------------------------------------

    @rule(reader=NUMBERS, kinds=st.lists(KINDS, min_size=1, max_size=3))
    def offer(self, reader: int, kinds: list[dict[str, int]]) -> None:
        calls = self._new_calls(reader, kinds)
        expected = [self.model.enqueue(call) for call in calls]
        assert self.world.reader(reader).offer(calls) == expected

    @rule(handler=NUMBERS, most=st.integers(1, 4))
    def claim(self, handler: int, most: int) -> None:
        q, table = self.world.q, self.world.table
        others_idle = q[table.idle_word] & ~(1 << handler)
        self.model.open(self.now_ns)
        expected: list[Call] = []
        while len(expected) < most and (call := self.model.draw(self.now_ns)):
            expected.append(call)
            known = [call.expected_ns for call in expected]
            if others_idle or 0 in known or sum(known) >= self.model.policy.claim_ahead_ns:
                break
        tags = self.world.handler(handler).claim(self.now_ns, most)
        assert tags == [call.tag for call in expected]
        assert bool(q[table.idle_word] >> handler & 1) == (not tags)

    @precondition(lambda self: any(handler.claimed for handler in self.world.handlers))
    @rule(publish=st.booleans())
    def run(self, publish: bool) -> None:
        handler = next(handler for handler in self.world.handlers if handler.claimed)
        handler.run()
        if publish:
            handler.publish()

    @rule(handler=NUMBERS)
    def publish(self, handler: int) -> None:
        self.world.handler(handler).publish()

    @rule(reader=NUMBERS, most=st.integers(1, 8))
    def gather(self, reader: int, most: int) -> None:
        self.world.reader(reader).gather(most)

    @rule(reader=NUMBERS, picks=st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True))
    def withdraw(self, reader: int, picks: list[int]) -> None:
        slots = self._picked(reader, picks)
        tags = [self.world.reader(reader).calls[slot].tag for slot in slots]
        outcomes = self.world.reader(reader).withdraw(slots)
        for tag, outcome in zip(tags, outcomes, strict=True):
            assert self.model.withdraw(tag) == (outcome == WITHDRAWN)

    @rule(limiter=NUMBERS, for_ns=st.integers(1, 5))
    def close_limiter(self, limiter: int, for_ns: int) -> None:
        opens_ns = max(self.model.opens_ns[limiter], self.now_ns + for_ns)
        self.model.opens_ns[limiter] = opens_ns
        self.world.close_limiter(limiter, opens_ns)

    @rule(ns=st.integers(1, 4))
    def let_time_pass(self, ns: int) -> None:
        self.now_ns += ns

    @rule(policy=st.sampled_from(POLICIES))
    def change_policy(self, policy: QueuePolicy) -> None:
        self.world.table.set_policy(policy)
        self.model.learn(self.world)

    # -- deaths ----------------------------------------------------------------------------------

    @rule(reader=NUMBERS, kinds=st.lists(KINDS, min_size=1, max_size=3), point=POINTS)
    def die_enqueueing(self, reader: int, kinds: list[dict[str, int]], point: int) -> None:
        calls = self._new_calls(reader, kinds)
        self._reader_dies(reader, lambda: self.world.reader(reader).offer(calls), point)

    @rule(reader=NUMBERS, point=POINTS)
    def die_gathering(self, reader: int, point: int) -> None:
        self._reader_dies(reader, self.world.reader(reader).gather, point)

    @rule(reader=NUMBERS, picks=st.lists(st.integers(0, 7), min_size=1, unique=True), point=POINTS)
    def die_withdrawing(self, reader: int, picks: list[int], point: int) -> None:
        slots = self._picked(reader, picks)
        self._reader_dies(reader, lambda: self.world.reader(reader).withdraw(slots), point)

    @rule(handler=NUMBERS, point=POINTS)
    def die_working(self, handler: int, point: int) -> None:
        work = self.world.handler(handler).work
        self._handler_dies(handler, lambda: work(self.now_ns), point)

    @rule(handler=NUMBERS, point=POINTS)
    def die_reaping(self, handler: int, point: int) -> None:
        reap = self.world.table.recovery.reap_handler
        self._handler_dies(handler, lambda: reap(handler), point)

    def _reader_dies(self, reader: int, action: Callable[[], object], point: int) -> None:
        before = {place.call.tag: place.key for place in self.model.waiting.values()}
        meet(Fate.KILL, point, action)
        self.world.bury_reader(reader)
        self._order_is_kept(before)

    def _handler_dies(self, handler: int, action: Callable[[], object], point: int) -> None:
        before = {place.call.tag: place.key for place in self.model.waiting.values()}
        meet(Fate.KILL, point, action)
        self.world.bury_handler(handler)
        self._order_is_kept(before)

    def _order_is_kept(self, before: dict[int, tuple[int, int]]) -> None:
        """Who waited and still waits, waits in the same order."""
        self.model.learn(self.world)
        for level in (*range(self.model.policy.levels), *LANES):
            still = [p for p in self.model.waiting.values() if p.level == level]
            still = [place for place in still if place.call.tag in before]
            by_now = sorted(still, key=lambda place: place.key)
            assert by_now == sorted(still, key=lambda place: before[place.call.tag])

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "world"):
            return
        assert self.world.audit() == []
        found = {state: self._tags(state) for state in (QUEUED, HELD)}
        held = {place.call.tag for chain in self.model.held.values() for place in chain}
        assert found == {QUEUED: set(self.model.waiting), HELD: held}

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()
            self.world.verify()
            self.world.close()

    # -- parts -----------------------------------------------------------------------------------

    def _new_calls(self, reader: int, kinds: list[dict[str, int]]) -> list[Call]:
        """Calls of these `kinds`, as many as the reader has slots for."""
        return [self.world.call(**kind) for kind in kinds[: len(self.world.reader(reader).free)]]

    def _picked(self, reader: int, picks: list[int]) -> list[int]:
        slots = list(self.world.reader(reader).calls)
        return [slots[pick] for pick in picks if pick < len(slots)]

    def _tags(self, state: int) -> set[int]:
        words = self.world.table.words[:, 0]
        slots = [slot for slot, word in enumerate(words.tolist()) if word & STATE_MASK == state]
        return {self.world.handler(0).tag(slot) for slot in slots}


def explore(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Queue,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


@pytest.mark.fault
def test_behaves_as_a_simple_queue_whoever_dies() -> None:
    explore(examples=25, steps=30)


@pytest.mark.fault
@pytest.mark.stress
@pytest.mark.parametrize("part", range(8))
def test_behaves_as_a_simple_queue_for_long(part: int) -> None:
    explore(examples=150, steps=50)
