"""A process dies inside a section, and the one that rebuilds after it dies, too."""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import handlers, readers
from .kill import Fate, meet, stores
from .scenario import HANDLER, READER, Act, Scenario
from .world import World

Prepare = Callable[[World], Act]


def heir(world: World, first: Act, part: float, operation: Callable[[], object]) -> Act:
    """`first` was cut short behind `part` of its stores; `operation` is the lock's next owner."""
    before = world.snapshot()
    points = stores(first.operation, world.watched())
    world.restore(before)
    assert meet(Fate.KILL, points[int(part * len(points))], first.operation)
    return Act(
        operation=operation,
        dead=((READER, 0), (HANDLER, 0)),
        keeps_order=False,
    )


def queue_after_enqueue(part: float, world: World) -> Act:
    return heir(world, readers.enqueue(world), part, world.handler(0).claim)


def queue_after_withdraw(part: float, world: World) -> Act:
    first = readers.withdraw_waiting(world)
    return heir(world, first, part, world.handler(0).claim)


def queue_after_claim(part: float, world: World) -> Act:
    first = handlers.claim_several(world)
    call = world.call(who=4)
    return heir(world, first, part, lambda: world.reader(0).offer([call]))


def answers_after_publish(part: float, world: World) -> Act:
    return heir(world, handlers.publish(world), part, world.reader(0).gather)


def pages_after_take(part: float, world: World) -> Act:
    first = readers.stage_and_enqueue(world)
    slots = world.reader(0).free[-1:]

    def operation() -> None:
        world.pages.take(slots[0], 0, 9000)

    return heir(world, first, part, operation)


def names_after_identity(part: float, world: World) -> Act:
    first = readers.new_identities(world)
    act = heir(world, first, part, lambda: world.names.identity("dee", 1))
    return Act(operation=act.operation, dead=act.dead, keeps_order=False)


def _cut_at(prepare: Callable[[float, World], Act], part: float) -> Scenario:
    return Scenario(functools.partial(prepare, part), variant=f"{prepare.__name__}_{part}")


SCENARIOS = [
    _cut_at(prepare, part)
    for prepare in (
        queue_after_enqueue,
        queue_after_withdraw,
        queue_after_claim,
        answers_after_publish,
        pages_after_take,
        names_after_identity,
    )
    for part in (0.3, 0.6, 0.9)
]
