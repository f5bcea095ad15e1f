"""Operations beside express handlers, to be cut short: short calls go on while long ones run.

Handlers 0 and 1 are ordinary, 2 and 3 are express handlers. Turns of short calls are ahead.
"""

from __future__ import annotations

import dataclasses

from faircall.shm import states
from faircall.shm.policy import QueuePolicy

from .handlers import OPENS_NS
from .scenario import HANDLER, READER, Act, Scenario
from .world import POLICY, SMALL, World

GEOMETRY = dataclasses.replace(SMALL, handlers=4, group_express=(2,))
ARRIVAL_ORDER = dataclasses.replace(POLICY, in_turn=False)
TWO_LEVELS = QueuePolicy(weights=(2, 1), capacities=(8, 8), max_principal=16)
SHORT, LONG = states.SHORT, states.LONG
DEAD = ((HANDLER, 2),)


def ahead(world: World) -> None:
    """Both ordinary handlers have run long calls and another waits, since before short ones of its
    level were served; calls of three principals wait on two levels."""
    world.reader(0).offer([world.call(who=4, cls=LONG) for _ in range(3)])
    for number in (0, 1):
        assert len(world.handler(number).claim(most=1)) == 1
        world.shared.row("handler", number)["status"] = states.Life.READY
    for _ in range(3):
        world.reader(1).offer([world.call(who=1, cls=SHORT)])
        assert len(world.handler(2).work()) == 1
        world.reader(1).gather()
    for who, level, cls in ((1, 0, SHORT), (2, 0, SHORT), (1, 1, SHORT), (3, 1, LONG)):
        world.reader(who % 2).offer([world.call(who=who, level=level, cls=cls)])


def claim_short(world: World) -> Act:
    """It claims, runs, answers and publishes one call."""
    ahead(world)
    handler = world.handler(2)

    def operation() -> None:
        assert [world.calls[tag].cls for tag in handler.work()] == [SHORT]

    return Act(operation=operation, dead=DEAD, keeps_order=False)


def claim_short_again(world: World) -> Act:
    """The same for a call that may be repeated: it goes back to its place."""
    ahead(world)
    call = world.call(who=3, cls=SHORT, idempotent=True)
    world.reader(1).offer([call])

    def finished() -> None:
        assert world.ledger.status[call.tag] == states.Status.RESULT

    def operation() -> None:
        while world.handler(2).work():
            pass

    return Act(operation=operation, dead=DEAD, keeps_order=False, finished=finished)


def claim_short_that_holds(world: World) -> Act:
    """What a limiter blocks has its turn by the level's count from then on."""
    world.close_limiter(0, OPENS_NS)
    ahead(world)
    world.reader(1).offer([world.call(who=who, cls=SHORT, limiters=(0,)) for who in (2, 3)])

    def operation() -> None:
        while world.handler(2).work():
            pass

    return Act(operation=operation, dead=DEAD, keeps_order=False)


def claim_short_that_opens(world: World) -> Act:
    """And by its ring's again, when the limiter lets it go."""
    claim_short_that_holds(world).operation()
    world.reader(0).gather()
    world.reader(1).gather()
    return Act(operation=lambda: world.handler(2).work(OPENS_NS), dead=DEAD, keeps_order=False)


def offer_short(world: World) -> Act:
    """A reader brings calls of both classes; an express handler is to be rung."""
    ahead(world)
    for number in (2, 3):
        world.handler(number).work()
    calls = [world.call(who=who, cls=cls) for who, cls in ((2, SHORT), (2, LONG))]
    return Act(
        operation=lambda: world.reader(0).offer(calls), dead=((READER, 0),), keeps_order=False
    )


def claim_of_the_last_long(world: World) -> Act:
    """An ordinary handler takes a long call: from then on there is none for short ones."""
    ahead(world)
    world.finish_claimed(0)
    return Act(operation=world.handler(0).claim, dead=((HANDLER, 0),), keeps_order=False)


def leave_short(world: World) -> Act:
    """The only ordinary handler that has time leaves."""
    ahead(world)
    world.finish_claimed(0)
    return Act(operation=lambda: world.table.leave(0), dead=((HANDLER, 0),), keeps_order=False)


def withdraw_short(world: World) -> Act:
    ahead(world)
    reader = world.reader(1)
    return Act(
        operation=lambda: reader.withdraw(list(reader.calls)),
        dead=((READER, 1),),
        keeps_order=False,
    )


def fewer_levels_for_short(world: World) -> Act:
    """Calls of levels that go join the lowest, where others are ahead by as much as these are."""
    ahead(world)
    world.reader(0).offer([world.call(who=3, cls=cls, level=3) for cls in (SHORT, LONG)])

    def operation() -> None:
        world.table.set_policy(TWO_LEVELS)

    return Act(operation=operation, keeps_order=False, repaired=operation)


SCENARIOS = [
    *(
        Scenario(prepare, POLICY, "", GEOMETRY)
        for prepare in (
            claim_short,
            claim_short_again,
            claim_short_that_holds,
            claim_short_that_opens,
            offer_short,
            claim_of_the_last_long,
            leave_short,
            withdraw_short,
            fewer_levels_for_short,
        )
    ),
    Scenario(claim_short, ARRIVAL_ORDER, "_in_arrival_order", GEOMETRY),
]
