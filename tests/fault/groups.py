"""Operations with two groups of handlers, to be cut short: calls of both wait, and are held.

Handlers 0 and 1 are of the first group, 2 and 3 of the other.
"""

from __future__ import annotations

from faircall.shm.policy import QueuePolicy

from .handlers import OPENS_NS
from .scenario import HANDLER, READER, Act, Scenario
from .world import GROUPED, OTHER_GROUP, POLICY, World

TWO_LEVELS = QueuePolicy(
    weights=(2, 1), capacities=(8, 8), group_capacities=((4, 4),), max_principal=16
)


def both(world: World, limiters: tuple[int, ...] = ()) -> None:
    """Calls of three principals on two levels of each group, of both readers."""
    for who, level in ((1, 0), (1, OTHER_GROUP), (2, OTHER_GROUP + 1), (3, 1), (2, OTHER_GROUP)):
        call = world.call(who=who, level=level, limiters=limiters)
        world.reader(who % 2).offer([call])


def offer_to_both(world: World) -> Act:
    """One lock, calls of both groups, a handler of each sleeps; one call joins what is held."""
    world.close_limiter(0, OPENS_NS)
    world.reader(1).offer([world.call(level=OTHER_GROUP, limiters=(0,))])
    assert world.handler(2).claim() == []
    calls = [world.call(who=2, level=level) for level in (0, OTHER_GROUP, 1, OTHER_GROUP + 3)]
    calls.append(world.call(who=3, level=OTHER_GROUP, limiters=(0,)))
    world.q[world.table.idle_word] = 0b0101
    return Act(
        operation=lambda: world.reader(0).offer(calls), dead=((READER, 0),), keeps_order=False
    )


def claim_of_the_first(world: World) -> Act:
    both(world)
    return Act(operation=world.handler(0).claim, dead=((HANDLER, 0),))


def claim_of_the_other(world: World) -> Act:
    """It takes, runs, answers and publishes calls of its group alone."""
    both(world)
    handler = world.handler(2)

    def operation() -> None:
        assert all(world.calls[tag].level >= OTHER_GROUP for tag in handler.work())

    return Act(operation=operation, dead=((HANDLER, 2),), keeps_order=False)


def claim_that_opens_for_both(world: World) -> Act:
    """The limiter of calls of both groups has opened: whichever handler looks lets all go."""
    world.close_limiter(1, OPENS_NS)
    both(world, limiters=(1,))
    for handler in (0, 2):
        assert world.handler(handler).claim() == []
    return Act(
        operation=lambda: world.handler(0).claim(OPENS_NS), dead=((HANDLER, 0),), keeps_order=False
    )


def withdraw_from_both(world: World) -> Act:
    """A reader gives up calls that wait in each group, and two that are held."""
    world.close_limiter(1, OPENS_NS)
    reader = world.reader(0)
    reader.offer([world.call(level=OTHER_GROUP, limiters=(1,)) for _ in range(2)])
    assert world.handler(2).claim() == []
    reader.offer([world.call(level=level) for level in (0, OTHER_GROUP)])
    return Act(operation=lambda: reader.withdraw(list(reader.calls)), dead=((READER, 0),))


def fewer_levels_for_both(world: World) -> Act:
    """Calls of each group's levels that go join the lowest of that group."""
    both(world)
    world.reader(0).offer([world.call(who=3, level=level) for level in (3, OTHER_GROUP + 3)])

    def operation() -> None:
        world.table.set_policy(TWO_LEVELS)

    return Act(operation=operation, keeps_order=False, repaired=operation)


SCENARIOS = [
    Scenario(prepare, POLICY, "", GROUPED)
    for prepare in (
        offer_to_both,
        claim_of_the_first,
        claim_of_the_other,
        claim_that_opens_for_both,
        withdraw_from_both,
        fewer_levels_for_both,
    )
]
