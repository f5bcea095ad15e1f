"""What handlers do, to be cut short: the victim is handler 0."""

from __future__ import annotations

from faircall.shm import states
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import RUNNING

from .scenario import HANDLER, Act, Scenario
from .world import POLICY, World

DEAD = ((HANDLER, 0),)
SHORT, LONG = states.SHORT, states.LONG
ARRIVAL_ORDER = QueuePolicy(capacities=(8, 8, 8, 8), in_turn=False, max_principal=16)
OPENS_NS = 1000


def waiting(world: World, idempotent: bool = False) -> None:
    """Calls of three principals and both classes on two levels, of both readers."""
    for who, level, cls in ((1, 0, LONG), (1, 0, SHORT), (1, 1, LONG), (2, 0, LONG), (3, 1, SHORT)):
        call = world.call(who=who, level=level, cls=cls, idempotent=idempotent)
        world.reader(who % 2).offer([call])


def claim(world: World) -> Act:
    waiting(world)
    return Act(operation=world.handler(0).claim, dead=DEAD)


def claim_several(world: World) -> Act:
    """Nobody is idle, and all calls are known to be short: one claim takes four, of two levels."""
    for who in (1, 1, 1, 2, 2):
        world.reader(who % 2).offer([world.call(who=who, expected_ns=1000, level=who - 1)])
    world.q[world.table.idle_word] = 0

    def operation() -> None:
        assert len(world.handler(0).claim()) == 4

    return Act(operation=operation, dead=DEAD)


def claim_that_holds(world: World) -> Act:
    """The limiter of the first two calls is closed."""
    world.close_limiter(1, OPENS_NS)
    limited = [world.call(who=1, limiters=(0, 1)) for _ in range(2)]
    world.reader(0).offer(limited)
    waiting(world)
    return Act(operation=world.handler(0).claim, dead=DEAD, keeps_order=False)


def claim_that_opens(world: World) -> Act:
    """The limiter of three held calls has opened."""
    world.close_limiter(1, OPENS_NS)
    world.reader(0).offer([world.call(who=who, limiters=(1,)) for who in (1, 1, 2)])
    assert world.handler(0).claim() == []
    waiting(world)
    return Act(operation=lambda: world.handler(0).claim(OPENS_NS), dead=DEAD)


def claim_of_nothing(world: World) -> Act:
    return Act(operation=world.handler(0).claim, dead=DEAD)


def serve(world: World) -> Act:
    """Claim, run, take pages, answer, publish: a call that may not be repeated."""
    world.reader(0).offer([world.call(answers=9000)])
    waiting(world)
    tag = 1

    def finished() -> None:
        runs, status = world.ledger.runs[tag], world.ledger.status[tag]
        assert world.ledger.answers[tag] == 1
        assert runs == 1 or status == states.Status.DIED

    return Act(operation=world.handler(0).work, dead=DEAD, finished=finished)


def serve_again(world: World) -> Act:
    """The same for a call that may be repeated: it is answered with a result, whatever happens."""
    world.reader(0).offer([world.call(answers=70_000, idempotent=True)])
    waiting(world, idempotent=True)

    def finished() -> None:
        assert all(world.ledger.status[tag] == states.Status.RESULT for tag in world.calls)

    return Act(operation=world.handler(0).work, dead=DEAD, finished=finished)


def serve_given_up(world: World) -> Act:
    """Two calls were claimed; the reader gives up the first before it is run, the other after."""
    reader, handler = world.reader(0), world.handler(0)
    reader.offer([world.call(answers=9000), world.call(answers=9000)])
    handler.claim()
    handler.claim()
    unwanted = list(reader.calls)
    reader.withdraw(unwanted[:1])
    handler.run()
    handler.run()
    reader.withdraw(unwanted[1:])
    assert world.state(unwanted[0]) != RUNNING
    waiting(world)
    return Act(operation=handler.publish, dead=DEAD)


def publish(world: World) -> Act:
    """Answers for both readers at once."""
    waiting(world)
    handler = world.handler(0)
    for _ in range(3):
        handler.claim()
    while handler.claimed:
        handler.run()
    return Act(operation=handler.publish, dead=DEAD)


def register_methods(world: World) -> Act:
    def operation() -> None:
        for name in ("echo", "add", "echo"):
            world.names.method(name, 1, 5)

    return Act(operation=operation, dead=DEAD, repaired=operation)


SCENARIOS = [
    Scenario(claim),
    Scenario(claim, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(claim_several),
    Scenario(claim_that_holds),
    Scenario(claim_that_opens),
    Scenario(claim_that_opens, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(claim_of_nothing),
    Scenario(serve),
    Scenario(serve_again),
    Scenario(serve_given_up),
    Scenario(publish, POLICY),
    Scenario(register_methods),
]
