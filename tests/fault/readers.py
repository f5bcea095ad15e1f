"""What readers do, to be cut short: the victim is reader 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from faircall.shm import states
from faircall.shm.layout import MAX_LEVELS
from faircall.shm.limiter_counters import L_USED
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import FREE, HELD, QUEUED
from faircall.shm.terms import BYTES, CALLS, REQUEST

from .scenario import READER, Act, Scenario
from .world import MANY, World

DEAD = ((READER, 0),)
SHORT, LONG = states.SHORT, states.LONG
ARRIVAL_ORDER = QueuePolicy(capacities=(8, 8, 8, 8), in_turn=False, max_principal=16)


def offered(world: World, accepted: int, *kinds: dict[str, Any]) -> Act:
    """Reader 0 offers staged calls of these `kinds`; the first `accepted` are taken, by and by."""
    reader, calls = world.reader(0), [world.call(**kind) for kind in kinds]
    slots = [reader.stage(call) for call in calls]

    def at_once() -> None:
        queued = [world.state(slot) in (QUEUED, HELD) for slot in slots]
        assert queued == sorted(queued, reverse=True), "accepted calls are no prefix of the batch"
        assert sum(queued) <= accepted

    return Act(operation=lambda: reader.enqueue(slots), dead=DEAD, at_once=at_once)


def enqueue(world: World) -> Act:
    world.reader(1).offer([world.call(level=level, who=2) for level in (0, 1, 1)])
    return offered(world, 4, {"level": 0}, {"level": 1}, {"level": 1, "cls": SHORT}, {"level": 1})


def enqueue_of_a_held_key(world: World) -> Act:
    """A limiter holds calls: others of its key are held at once."""
    world.close_limiter(0, opens_ns=1000)
    world.limit(1)
    world.reader(1).offer([world.call(who=2, limiters=(0,))])
    assert world.handler(0).claim(0) == []
    limited: dict[str, Any] = {"limiters": (0,)}
    kinds: list[dict[str, Any]] = [limited, {"limiters": (0, 1)}, {}, limited | {"level": 1}]
    return replace(offered(world, 4, *kinds), keeps_order=False)


def enqueue_overflowing(world: World) -> Act:
    world.reader(1).offer([world.call(level=0, who=2)])
    return offered(world, 4, *[{"level": 0}] * 6)


def enqueue_of_a_full_principal(world: World) -> Act:
    world.reader(1).offer([world.call(level=0, who=2)])
    return offered(world, 2, *[{"level": 0}] * 3)


def stage_and_enqueue(world: World) -> Act:
    """Pages are taken as well: one small, a small chain, a large one, and a warm one."""
    reader = world.reader(0)
    reader.offer([world.call()])
    world.handler(1).work()
    reader.gather()
    world.reader(1).offer([world.call(who=2)])
    calls = [world.call(asks=asks, who=3) for asks in (10, 9000, 70_000, 10)]
    assert reader.warm
    return Act(operation=lambda: reader.offer(calls), dead=DEAD)


def gather(world: World) -> Act:
    """Answers beside requests and in pages of their own, a warm page, one call given up."""
    reader = world.reader(0)
    sizes = [(10, 10), (10, 5000), (5000, 70_000), (10, 10)]
    calls = [world.call(asks=asks, answers=answers) for asks, answers in sizes]
    reader.offer(calls)
    world.reader(1).offer([world.call(who=2)])
    claimed = world.handler(1).claim()
    reader.withdraw([slot for slot, call in reader.calls.items() if call.tag in claimed])
    while world.handler(1).claimed:
        world.handler(1).run()
    world.handler(1).publish()
    while world.handler(1).work():
        pass
    return Act(operation=reader.gather, dead=DEAD, keeps_order=False)


def withdraw_waiting(world: World) -> Act:
    """From the head, the middle and the end of chains, from both classes, and a held one."""
    reader = world.reader(0)
    world.close_limiter(0, opens_ns=1000)
    reader.offer([world.call(limiters=(0,), who=3)])
    assert world.handler(0).claim(0) == []
    mine = [world.call(cls=cls, who=who) for cls, who in ((LONG, 1), (SHORT, 1), (LONG, 1))]
    reader.offer(mine)
    world.reader(1).offer([world.call(who=2), world.call(who=2, cls=SHORT)])
    reader.offer([world.call(asks=9000)])
    slots = list(reader.calls)

    def at_once() -> None:
        free = [world.state(slot) == FREE for slot in slots]
        assert free == sorted(free, reverse=True), "withdrawn calls are no prefix of the batch"

    return Act(operation=lambda: reader.withdraw(slots), dead=DEAD, at_once=at_once)


def enqueue_of_counted(world: World) -> Act:
    """The first of three is alone with its caller's method, and the limiter of all is shut."""
    world.close_limiter(0, opens_ns=1000)
    world.limit(1)
    world.reader(1).offer([world.call(who=2, limiters=(0,))])
    assert world.handler(0).claim(0) == []
    counted: dict[str, Any] = {"limiters": (0, 1), "counted": True}
    kinds: list[dict[str, Any]] = [counted, counted, counted | {"who": 3, "level": 1}]
    return replace(offered(world, 3, *kinds), keeps_order=False)


def withdraw_counted(world: World) -> Act:
    """Calls that are a backlog, held and not, and one of two of another reader."""
    world.close_limiter(0, opens_ns=1000)
    world.limit(1)
    reader, counted = world.reader(0), {"limiters": (0, 1), "counted": True}
    reader.offer([world.call(who=who, **counted) for who in (1, 1, 2)])
    world.reader(1).offer([world.call(who=2, **counted)])
    assert world.handler(0).claim(0) == []
    reader.offer([world.call(who=3, **counted)])
    slots = list(reader.calls)
    return Act(operation=lambda: reader.withdraw(slots), dead=DEAD, keeps_order=False)


def withdraw_charged(world: World) -> Act:
    """Dropped calls are charged before their slots are free: never too little, once at most."""
    world.limit(0, MANY, 1 << 40, flags=REQUEST)
    world.limit(1, limits=(MANY, 1 << 20, -1), period_ns=1 << 40, flags=REQUEST)
    reader = world.reader(0)
    reader.offer([world.call(limiters=(0, 1), who=who, asks=100) for who in (1, 2, 3)])
    slots = list(reader.calls)

    def charged(row: int, dimension: int) -> int:
        return world.q[world.table.limiters.at(row) + L_USED + dimension] & 0xFFFF_FFFF

    def at_once() -> None:
        gone = sum(world.state(slot) == FREE for slot in slots)
        assert gone <= charged(0, CALLS) <= gone + 1
        assert gone <= charged(1, CALLS) <= charged(0, CALLS)
        assert 100 * gone <= charged(1, BYTES) <= 100 * charged(1, CALLS)

    return Act(operation=lambda: reader.withdraw(slots, 0), dead=DEAD, at_once=at_once)


def withdraw_too_late(world: World) -> Act:
    """One call runs, one is answered."""
    reader = world.reader(0)
    reader.offer([world.call()])
    world.handler(1).work()
    reader.offer([world.call(who=2)])
    world.handler(1).claim()
    return Act(operation=lambda: reader.withdraw(list(reader.calls)) and reader.gather(), dead=DEAD)


def new_identities(world: World) -> Act:
    """Two find a free row, the third joins the others."""

    def operation() -> list[int]:
        return [world.names.identity(name, now_ns=1) for name in ("ann", "bob", "cy")]

    def repaired() -> None:
        rows = operation()
        names = [world.names.identities.name(row) for row in rows]
        assert names == ["ann", "bob", "(others)"]
        assert not world.q[world.table.last_turn0 + rows[0] * MAX_LEVELS]

    return Act(operation=operation, dead=DEAD, repaired=repaired)


SCENARIOS = [
    Scenario(enqueue),
    Scenario(enqueue, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(enqueue_of_a_held_key),
    Scenario(enqueue_overflowing, QueuePolicy(capacities=(1, 1, 1, 2), max_principal=16)),
    Scenario(enqueue_of_a_full_principal, QueuePolicy(capacities=(8, 8, 8, 8), max_principal=2)),
    Scenario(stage_and_enqueue),
    Scenario(gather),
    Scenario(withdraw_waiting),
    Scenario(withdraw_waiting, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(enqueue_of_counted),
    Scenario(withdraw_counted),
    Scenario(withdraw_charged),
    Scenario(withdraw_too_late),
    Scenario(new_identities),
]
