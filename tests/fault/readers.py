"""What readers do, to be cut short: the victim is reader 0."""

from __future__ import annotations

from faircall.shm import states
from faircall.shm.layout import MAX_LEVELS
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import FREE, QUEUED

from .scenario import READER, Act, Scenario
from .world import World

DEAD = ((READER, 0),)
SHORT, LONG = states.SHORT, states.LONG
ARRIVAL_ORDER = QueuePolicy(capacities=(8, 8, 8, 8), in_turn=False, max_principal=16)


def offered(world: World, accepted: int, *kinds: dict[str, int]) -> Act:
    """Reader 0 offers staged calls of these `kinds`; the first `accepted` are taken, by and by."""
    reader, calls = world.reader(0), [world.call(**kind) for kind in kinds]
    slots = [reader.stage(call) for call in calls]

    def at_once() -> None:
        queued = [world.state(slot) == QUEUED for slot in slots]
        assert queued == sorted(queued, reverse=True), "accepted calls are no prefix of the batch"
        assert sum(queued) <= accepted

    return Act(operation=lambda: reader.enqueue(slots), dead=DEAD, at_once=at_once)


def enqueue(world: World) -> Act:
    world.reader(1).offer([world.call(level=level, who=2) for level in (0, 1, 1)])
    return offered(world, 4, {"level": 0}, {"level": 1}, {"level": 1, "cls": SHORT}, {"level": 1})


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
    Scenario(enqueue_overflowing, QueuePolicy(capacities=(1, 1, 1, 2), max_principal=16)),
    Scenario(enqueue_of_a_full_principal, QueuePolicy(capacities=(8, 8, 8, 8), max_principal=2)),
    Scenario(stage_and_enqueue),
    Scenario(gather),
    Scenario(withdraw_waiting),
    Scenario(withdraw_waiting, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(withdraw_too_late),
    Scenario(new_identities),
]
