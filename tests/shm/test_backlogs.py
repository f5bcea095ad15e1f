"""Calls that go free because their caller has no backlog, and what is charged for dropped ones."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.scheduling.dispatch_rate import NEVER_NS
from faircall.shm.answers import WITHDRAWN
from faircall.shm.budgets import COUNTED, PAID, W_DEADLINE
from faircall.shm.held import DUE
from faircall.shm.limiter_counters import L_BACKLOG, L_HELD, L_OPENS, L_RUNNING, L_USED, L_WAITING
from faircall.shm.offers import ACCEPTED, THROTTLED
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.slot_limiters import W_BUDGET, follow
from faircall.shm.states import RUNNING, STATE_MASK
from faircall.shm.terms import ANSWER, BYTES, CALLS, HANDLER, LEARNS, LEARNS_SHIFT, REQUEST

from ..fault.calls import Call
from ..fault.world import MANY, World
from .conftest import MakeWorld

S = 1_000_000_000
PAIR = 1  # the row of method and caller, in which these tests' calls count


def counted(world: World, **kind: Any) -> Call:
    return world.call(**({"limiters": (0, PAIR), "counted": True} | kind))


def offer(world: World, count: int = 1, **kind: Any) -> list[int]:
    return world.reader(0).offer([counted(world, **kind) for _ in range(count)])


def word(world: World, at: int, row: int = PAIR) -> int:
    return world.q[world.table.limiters.at(row) + at]


def used(world: World, d: int = CALLS) -> int:
    return word(world, L_USED + d, 0) & 0xFFFF_FFFF


def own(world: World, index: int = 0) -> int:
    """Where the words of the reader's `index`-th call begin."""
    return world.table.slot0 + list(world.reader(0).calls)[index] * SLOT_WORDS


def backlog(world: World) -> tuple[int, int]:
    return word(world, L_WAITING), word(world, L_BACKLOG)


@pytest.fixture
def limited(world: World) -> World:
    """Two calls a second, and a row that only counts."""
    world.limit(0, 2, S)
    world.limit(PAIR)
    return world


@pytest.fixture
def shut(world: World) -> World:
    """The limiter opens in a second."""
    world.close_limiter(0, S)
    world.limit(PAIR)
    return world


def test_a_call_that_waits_alone_is_not_charged(limited: World) -> None:
    for _ in range(5):
        offer(limited)
        assert backlog(limited) == (1, 0)
        assert len(limited.handler(1).work(0)) == 1
        assert backlog(limited) == (0, 0)
    assert used(limited) == 0
    assert limited.audit() == []


def test_it_goes_though_its_limiter_is_shut(shut: World) -> None:
    offer(shut)
    assert len(shut.handler(1).work(0)) == 1
    assert used(shut) == MANY


def test_a_backlog_is_limited_until_none_waits(limited: World) -> None:
    offer(limited, 5)
    assert backlog(limited) == (5, 1)
    assert len(limited.handler(1).work(0) + limited.handler(1).work(0)) == 2
    assert limited.handler(1).work(0) == []
    assert (used(limited), word(limited, L_HELD, 0)) == (2, 3)
    limited.handler(1).work(S)
    limited.handler(1).work(S)
    assert backlog(limited) == (1, 1), "the last one is a part of it"
    assert limited.handler(1).work(S) == []
    assert len(limited.handler(1).work(2 * S)) == 1
    assert (used(limited), backlog(limited)) == (1, (0, 0))
    assert limited.audit() == []


def test_one_more_call_makes_a_backlog_of_the_first(shut: World) -> None:
    offer(shut)
    offer(shut)
    assert backlog(shut) == (2, 1)
    assert shut.handler(1).work(0) == []
    assert word(shut, L_HELD, 0) == 2


def test_it_is_not_refused_where_others_are(shut: World) -> None:
    reader = shut.reader(0)
    slots = [reader.stage(counted(shut)) for _ in range(2)]
    for slot in slots:
        shut.q[shut.table.slot0 + slot * SLOT_WORDS + W_DEADLINE] = S // 2
    assert reader.enqueue(slots) == [ACCEPTED, THROTTLED]
    assert backlog(shut) == (1, 0), "who was refused does not count"
    assert len(shut.handler(1).work(0)) == 1


def test_what_is_blocked_is_blocked_for_it_too(world: World) -> None:
    world.limit(0, 0, S)
    world.limit(PAIR)
    reader = world.reader(0)
    slots = [reader.stage(counted(world)) for _ in range(2)]
    for slot, deadline_ns in zip(slots, (NEVER_NS, NEVER_NS + 1), strict=True):
        world.q[world.table.slot0 + slot * SLOT_WORDS + W_DEADLINE] = deadline_ns
    assert reader.enqueue(slots) == [THROTTLED, ACCEPTED]
    assert world.handler(1).work(DUE) == []
    assert word(world, L_HELD, 0) == 1
    world.limit(0, 9, S)
    with world.table.queue_lock:
        world.table.held.look(world.table.limiters.at(0))
    assert len(world.handler(1).work(S)) == 1
    assert used(world) == 0
    assert world.audit() == []


def test_it_is_not_held_with_others_of_a_limiter(shut: World) -> None:
    shut.reader(0).offer([shut.call(limiters=(0,)), shut.call(limiters=(0,))])
    assert shut.handler(1).work(0) == []
    offer(shut)
    assert len(shut.handler(1).work(0)) == 1
    offer(shut, 2)
    assert word(shut, L_HELD, 0) == 3, "the second one is a backlog, and is held at once"
    assert shut.audit() == []


def test_a_call_that_finds_no_room_to_be_held_counts_no_more(make_world: MakeWorld) -> None:
    world = make_world(QueuePolicy(capacities=(8, 8, 8, 8), max_principal=16, held_share=250))
    world.close_limiter(0, S)
    world.limit(PAIR)
    offer(world, 4)
    world.handler(1).work(0)
    assert word(world, L_HELD, 0) < 4
    assert backlog(world) == (word(world, L_HELD, 0), 1)
    assert world.audit() == []


def test_it_counts_among_those_that_run_and_nothing_else_of_it_is_charged(world: World) -> None:
    world.limit(0, limits=(9, 9999, S), period_ns=S, running=1, flags=REQUEST | ANSWER)
    world.limit(PAIR)
    offer(world)
    assert len(world.handler(0).claim()) == 1
    assert (word(world, L_RUNNING, 0), world.q[own(world) + W_BUDGET]) == (1, COUNTED)
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert word(world, L_RUNNING, 0) == 1
    offer(world)
    assert world.handler(1).work(0) == [], "one may run at once"
    assert world.audit() == []
    world.handler(0).run()
    world.handler(0).publish()
    assert word(world, L_RUNNING, 0) == 0
    assert len(world.handler(1).work(DUE)) == 1
    assert [used(world, d) for d in (CALLS, BYTES, HANDLER)] == [0, 0, 0]
    assert world.audit() == []


def test_one_that_waits_for_a_running_call_does_not_wait_for_the_period(world: World) -> None:
    world.limit(0, 1, S, running=1)
    world.limit(PAIR)
    world.reader(0).offer([world.call(limiters=(0,))])
    world.handler(0).claim()
    offer(world)
    assert world.handler(1).work(0) == []
    assert world.q[own(world, 1) + W_BUDGET] == COUNTED | PAID
    world.handler(0).run()
    world.handler(0).publish()
    assert word(world, L_OPENS, 0) == S
    assert len(world.handler(1).work(DUE)) == 1
    assert used(world) == 1
    assert world.audit() == []


def test_what_goes_free_teaches_what_its_method_takes(world: World) -> None:
    world.limit(0, limits=(-1, -1, S), period_ns=S, flags=LEARNS | 1 + 1 << LEARNS_SHIFT)
    world.limit(PAIR)
    offer(world)
    assert world.calls[1].tag == 1, "which is its method, too"
    world.handler(1).work(0)
    assert world.table.limiters.average(1 + 1) > 0
    assert used(world, HANDLER) == 0


def test_a_withdrawn_call_counts_no_more(shut: World) -> None:
    offer(shut, 3)
    shut.handler(1).work(0)
    offer(shut)
    reader = shut.reader(0)
    assert set(reader.withdraw(list(reader.calls)[1:])) == {WITHDRAWN}
    assert backlog(shut) == (1, 1)
    assert shut.audit() == []
    reader.withdraw(list(reader.calls))
    assert backlog(shut) == (0, 0)


def test_a_rebuild_counts_anew(limited: World) -> None:
    offer(limited, 5)
    limited.handler(1).work(0)
    at = limited.table.limiters.at(PAIR)
    limited.q[at + L_WAITING], limited.q[at + L_BACKLOG] = 77, 0
    assert [finding[:9] for finding in limited.audit()] == ["limiter 1"]
    with limited.table.queue_lock:
        limited.table.recovery.rebuild_queue()
    assert backlog(limited) == (4, 1)
    assert limited.audit() == []


def test_a_call_whose_handler_died_is_limited_like_any_other(shut: World) -> None:
    offer(shut, idempotent=True)
    assert len(shut.handler(0).claim()) == 1
    shut.bury_handler(0)
    assert backlog(shut) == (0, 0)
    assert shut.handler(1).work(0) == []
    assert len(shut.handler(1).work(S)) == 1
    assert shut.audit() == []


def test_it_is_freed_after_its_handler_died_under_a_cap(world: World) -> None:
    world.limit(0, limits=(9, -1, S), period_ns=S, running=1)
    world.limit(PAIR)
    offer(world)
    world.handler(0).claim()
    world.handler(0).run()
    assert world.q[own(world)] & STATE_MASK == RUNNING
    world.bury_handler(0)
    assert word(world, L_RUNNING, 0) == 0
    assert [used(world, d) for d in (CALLS, HANDLER)] == [0, 0]
    assert world.audit() == []


# -- dropped calls -------------------------------------------------------------------------------


def test_a_dropped_call_is_charged_with_its_bytes_if_it_is_to_be(world: World) -> None:
    world.limit(0, limits=(MANY, 9999, S), period_ns=S, flags=REQUEST)
    reader = world.reader(0)
    reader.offer([world.call(limiters=(0,), asks=100, who=who) for who in (1, 2, 3)])
    slots = list(reader.calls)
    reader.withdraw(slots[:1])
    assert (used(world), used(world, BYTES)) == (0, 0)
    reader.withdraw(slots[1:], charged_ns=0)
    assert (used(world), used(world, BYTES)) == (2, 200)
    assert world.audit() == []


def test_what_is_overdrawn_by_dropped_calls_is_paid_back(world: World) -> None:
    world.limit(0, 2, S)
    reader = world.reader(0)
    reader.offer([world.call(limiters=(0,)) for _ in range(5)])
    reader.withdraw(list(reader.calls), charged_ns=S // 2)
    assert (used(world), word(world, L_OPENS, 0)) == (5, 2 * S)


def test_held_calls_that_are_dropped_are_charged_to_the_period_of_the_drop(world: World) -> None:
    world.limit(0, 1, S)
    reader = world.reader(0)
    reader.offer([world.call(limiters=(0,)) for _ in range(3)])
    assert len(world.handler(1).work(0)) == 1
    assert world.handler(1).work(0) == []
    reader.gather()
    reader.withdraw(list(reader.calls), charged_ns=5 * S)
    assert (used(world), word(world, L_OPENS, 0)) == (2, 7 * S)
    assert world.audit() == []


def test_a_dropped_batch_is_one_call_and_all_of_its_bytes(world: World) -> None:
    world.limit(0, limits=(MANY, 9999, -1), period_ns=S, flags=REQUEST)
    reader = world.reader(0)
    slots = [reader.stage(world.call(limiters=(0,), asks=100)) for _ in range(3)]
    for index in (0, 1):
        following = slots[index + 1]
        follow(world.q, reader.own(slots[index]), reader.own(following), following)
    reader.enqueue(slots)
    reader.withdraw(slots[:1], charged_ns=0)
    assert (used(world), used(world, BYTES)) == (1, 300)
    reader.withdraw(slots[1:], charged_ns=0)
    assert (used(world), used(world, BYTES)) == (1, 300)
    assert world.audit() == []


def test_what_would_have_gone_free_is_dropped_for_nothing(limited: World) -> None:
    offer(limited)
    limited.reader(0).withdraw(list(limited.reader(0).calls), charged_ns=0)
    assert used(limited) == 0
    offer(limited, 2)
    limited.reader(0).withdraw(list(limited.reader(0).calls), charged_ns=0)
    assert used(limited) == 2
    assert backlog(limited) == (0, 0)
