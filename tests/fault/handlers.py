"""What handlers do, to be cut short: the victim is handler 0."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from faircall.shm import states
from faircall.shm.layout import METHOD, WORD, word_of
from faircall.shm.limiter_counters import L_USED
from faircall.shm.policy import QueuePolicy
from faircall.shm.slot_limiters import follow
from faircall.shm.states import RUNNING
from faircall.shm.terms import ANSWER, BYTES, CALLS, HANDLER, REQUEST

from .roles import ANSWER_BYTES, SPENT_US
from .scenario import HANDLER as HANDLER_ROLE
from .scenario import Act, Scenario
from .world import MANY, POLICY, SMALL, World

DEAD = ((HANDLER_ROLE, 0),)
SHORT, LONG = states.SHORT, states.LONG
ARRIVAL_ORDER = QueuePolicy(capacities=(8, 8, 8, 8), in_turn=False, max_principal=16)
HOLDING_FEW = QueuePolicy(capacities=(8, 8, 8, 8), max_principal=16, held_share=375)
SEATS = QueuePolicy(capacities=(8, 8, 8, 8), max_principal=16, long_ns=1)
OPENS_NS = 1000
LONG_PERIOD_NS = 1 << 40


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


def claim_out_of_turn(world: World) -> Act:
    """The last seat: a call is taken from behind those of a caller whose long calls hold the
    others."""
    methods = world.table.segment.layout.methods // WORD + word_of(METHOD, "expected_ns")
    for tag in range(SMALL.methods):
        world.q[methods + tag * (METHOD.itemsize // WORD)] = 1
    for number in range(2):
        world.shared.row("handler", number)["status"] = states.Life.READY
    world.reader(0).offer([world.call(who=1), world.call(who=1)])
    assert len(world.handler(1).claim()) == 1
    world.reader(1).offer([world.call(who=2, level=1)])
    return Act(operation=world.handler(0).claim, dead=DEAD, keeps_order=False)


def claim_together(world: World) -> Act:
    """A joint run of four, of two levels, from before and from behind calls of other methods."""
    world.run_together(4)
    for who, level, together in ((1, 0, 1), (2, 0, 1), (2, 1, 0), (1, 1, 1), (3, 0, 1), (3, 1, 1)):
        call = world.call(who=who, level=level, together=bool(together))
        world.reader(who % 2).offer([call])

    def operation() -> None:
        assert len(world.handler(0).claim()) == 4

    return Act(operation=operation, dead=DEAD, keeps_order=False)


def gather(world: World) -> Act:
    """Two calls were claimed and their handler waits for a third, which has come."""
    world.run_together(4, within_ns=1000)
    world.reader(0).offer([world.call(together=True), world.call(together=True)])
    handler, joint = world.handler(0), world.table.joint
    assert len(handler.claim()) == 2
    assert joint.gathers
    slots, tokens = list(joint.slots), list(joint.tokens)
    world.reader(1).offer([world.call(who=2, together=True)])

    def operation() -> None:
        joint.slots[:], joint.tokens[:] = slots, tokens
        joint.join(0, 0, last=True)
        assert len(joint.slots) == 3
        handler.joined = list(zip(joint.slots, joint.tokens, strict=True))
        handler.run_together()
        handler.publish()

    return Act(operation=operation, dead=DEAD, keeps_order=False)


def serve_together(world: World, idempotent: bool = False) -> Act:
    """Claimed, begun by one store, run, answered one by one, published."""
    world.run_together(3)
    calls = [
        world.call(who=who, together=True, idempotent=idempotent, answers=size)
        for who, size in ((1, 16), (2, 9000), (3, 16))
    ]
    world.reader(0).offer(calls)

    def finished() -> None:
        for tag in world.calls:
            assert world.ledger.answers[tag] == 1
            assert world.ledger.status[tag] == states.Status.RESULT or not idempotent

    return Act(operation=world.handler(0).work, dead=DEAD, finished=finished)


def serve_together_again(world: World) -> Act:
    """The same of calls that may be repeated: all are answered with a result."""
    return serve_together(world, idempotent=True)


def claim_that_holds(world: World) -> Act:
    """The limiter of the first two calls is closed."""
    world.close_limiter(1, OPENS_NS)
    limited = [world.call(who=1, limiters=(0, 1)) for _ in range(2)]
    world.reader(0).offer(limited)
    waiting(world)
    return Act(operation=world.handler(0).claim, dead=DEAD, keeps_order=False)


def claim_that_turns_away(world: World) -> Act:
    """Two of five calls may be held, one of each principal; the others are answered."""
    world.close_limiter(1, OPENS_NS)
    limited = [world.call(who=1 + n % 2, limiters=(0, 1)) for n in range(5)]
    world.reader(0).offer(limited)
    handler = world.handler(0)

    def operation() -> None:
        handler.work()
        handler.work()

    def finished() -> None:
        status = [int(world.ledger.status[call.tag]) for call in limited]
        assert status.count(states.Status.RESULT) >= 2
        assert set(status) <= {states.Status.RESULT, states.Status.THROTTLED}

    return Act(operation=operation, dead=DEAD, keeps_order=False, finished=finished)


def claim_that_opens_many(world: World) -> Act:
    """More calls than one section lets go, or holds: the lock is free in between."""
    world.table.claims.hold_at_once = 1
    world.close_limiter(0, OPENS_NS)
    world.close_limiter(1, 2 * OPENS_NS)
    world.reader(0).offer([world.call(who=who, limiters=(0,)) for who in (1, 1, 2, 2)])
    assert world.handler(0).claim() == []
    world.reader(1).offer([world.call(who=3, limiters=(1,)) for _ in range(4)])
    return Act(operation=lambda: world.handler(0).work(OPENS_NS), dead=DEAD, keeps_order=False)


def claim_that_opens(world: World) -> Act:
    """The limiter of three held calls has opened."""
    world.close_limiter(1, OPENS_NS)
    world.reader(0).offer([world.call(who=who, limiters=(1,)) for who in (1, 1, 2)])
    assert world.handler(0).claim() == []
    waiting(world)
    return Act(operation=lambda: world.handler(0).claim(OPENS_NS), dead=DEAD)


def limited(world: World) -> Callable[[], None]:
    """Three calls under two limiters, one of them of handler time; what must hold at the end.

    No period ends meanwhile: everything that ran is still charged, re-runs too.
    """
    world.limit(0, MANY, LONG_PERIOD_NS, flags=REQUEST)
    world.limit(
        1, limits=(MANY, 1 << 20, 1 << 20), period_ns=LONG_PERIOD_NS, flags=ANSWER, running=2
    )
    calls = [world.call(who=who, limiters=(0, 1)) for who in (1, 1, 2)]
    world.reader(0).offer(calls)

    def charged() -> None:
        tags = [call.tag for call in calls]
        runs = sum(int(world.ledger.runs[tag]) for tag in tags)
        results = sum(world.ledger.status[tag] == states.Status.RESULT for tag in tags)
        for row in (0, 1):
            assert used(world, row, CALLS) >= runs, "a dispatch was not charged"
        assert used(world, 1, HANDLER) >= results * SPENT_US, "handler time was given away"
        assert used(world, 1, BYTES) >= results * ANSWER_BYTES, "bytes were given away"

    return charged


def used(world: World, row: int, dimension: int) -> int:
    return world.q[world.table.limiters.at(row) + L_USED + dimension] & 0xFFFF_FFFF


def claim_under_limits(world: World) -> Act:
    charged = limited(world)
    waiting(world)
    return Act(operation=world.handler(0).claim, dead=DEAD, keeps_order=False, finished=charged)


def serve_under_limits(world: World) -> Act:
    """Claimed, run, settled and published, with what the limiter of running calls held."""
    charged = limited(world)
    handler = world.handler(0)

    def operation() -> None:
        handler.work()
        handler.work()

    return Act(operation=operation, dead=DEAD, keeps_order=False, finished=charged)


def settle_under_limits(world: World) -> Act:
    """Two calls ended, which had reserved more than they used."""
    charged = limited(world)
    for method in (1, 2, 3):
        world.table.limiters.set_average(method, 5 * SPENT_US << 32 | 100)
    handler = world.handler(0)
    handler.claim()
    handler.claim()
    while handler.claimed:
        handler.run()
    waiting(world)
    return Act(operation=handler.publish, dead=DEAD, keeps_order=False, finished=charged)


def serve_by_memory(world: World) -> Act:
    """What limits the second call is known from the first; the third is the last that one limiter
    lets go, which takes a look: what it was charged by the other is taken back before."""
    world.limit(0, MANY, LONG_PERIOD_NS)
    world.limit(1, 3, OPENS_NS)
    world.reader(0).offer([world.call(who=who, limiters=(0, 1)) for who in (1, 2, 3)])
    handler = world.handler(0)

    def operation() -> None:
        for _ in range(3):
            handler.work()

    def charged() -> None:
        runs = sum(int(world.ledger.runs[tag]) for tag in world.calls)
        assert used(world, 0, CALLS) >= runs, "a dispatch was not charged"

    return Act(operation=operation, dead=DEAD, keeps_order=False, finished=charged)


def claim_of_counted(world: World) -> Act:
    """A call that waits alone goes free though its limiter is shut, and counts as running."""
    world.close_limiter(0, OPENS_NS)
    world.limit(1, running=4)
    call = world.call(limiters=(0, 1), counted=True)
    world.reader(1).offer([call])

    def operation() -> None:
        assert world.handler(0).work() == [call.tag]
        assert used(world, 0, CALLS) == MANY

    return Act(operation=operation, dead=DEAD)


def serve_counted(world: World) -> Act:
    """Three are a backlog until none waits: all are charged, the one that was held, too."""
    world.limit(0, MANY, LONG_PERIOD_NS, flags=REQUEST)
    world.limit(1, limits=(-1, -1, 1 << 20), period_ns=LONG_PERIOD_NS, running=2)
    calls = [world.call(who=who, limiters=(0, 1), counted=True) for who in (1, 1, 2)]
    world.reader(0).offer(calls)
    handler = world.handler(0)

    def operation() -> None:
        while handler.work():
            pass

    def charged() -> None:
        runs = sum(int(world.ledger.runs[call.tag]) for call in calls)
        assert used(world, 0, CALLS) >= runs, "a dispatch from a backlog was not charged"

    return Act(operation=operation, dead=DEAD, keeps_order=False, finished=charged)


def claim_of_a_batch(world: World) -> Act:
    """Its head pays for all three."""
    world.limit(0, MANY, LONG_PERIOD_NS, flags=REQUEST)
    offer_batch(world, (0,), (0,), (0,))

    def charged() -> None:
        assert used(world, 0, CALLS) >= 1
        assert used(world, 0, BYTES) == 0

    return Act(operation=world.handler(0).work, dead=DEAD, finished=charged)


def claim_of_a_held_batch(world: World) -> Act:
    """The limiter of its head has opened, that of the others has not: they go with it."""
    world.close_limiter(0, OPENS_NS)
    world.close_limiter(1, 2 * OPENS_NS)
    offer_batch(world, (0,), (0, 1), (0, 1))
    assert world.handler(0).claim() == []
    waiting(world)
    return Act(operation=lambda: world.handler(0).work(OPENS_NS), dead=DEAD, keeps_order=False)


def offer_batch(world: World, *limiters: tuple[int, ...]) -> None:
    """A call for each tuple of limiter rows, the first of them the head."""
    reader = world.reader(0)
    slots = [reader.stage(world.call(limiters=rows)) for rows in limiters]
    for one, following in itertools.pairwise(slots):
        follow(world.q, reader.own(one), reader.own(following), following)
    reader.enqueue(slots)


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


def leave(world: World) -> Act:
    """Handler 0 was rung for a call and told to end: the call is another's, whoever dies."""
    world.reader(0).offer([world.call()])

    def finished() -> None:
        assert world.ledger.status[1] == states.Status.RESULT

    return Act(operation=lambda: world.table.leave(0), dead=DEAD, finished=finished)


def register_methods(world: World) -> Act:
    def operation() -> None:
        for name in ("echo", "add", "echo"):
            world.names.method(name, 1, 5)

    return Act(operation=operation, dead=DEAD, repaired=operation)


SCENARIOS = [
    Scenario(claim),
    Scenario(claim, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(claim_several),
    Scenario(claim_out_of_turn, SEATS),
    Scenario(claim_together),
    Scenario(claim_together, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(gather),
    Scenario(serve_together),
    Scenario(serve_together_again),
    Scenario(claim_that_holds),
    Scenario(claim_that_turns_away, HOLDING_FEW),
    Scenario(claim_that_opens_many),
    Scenario(claim_that_opens),
    Scenario(claim_that_opens, ARRIVAL_ORDER, "_in_arrival_order"),
    Scenario(claim_under_limits),
    Scenario(serve_under_limits),
    Scenario(settle_under_limits),
    Scenario(serve_by_memory),
    Scenario(claim_of_counted),
    Scenario(serve_counted),
    Scenario(claim_of_a_batch),
    Scenario(claim_of_a_held_batch),
    Scenario(claim_of_nothing),
    Scenario(serve),
    Scenario(serve_again),
    Scenario(serve_given_up),
    Scenario(publish, POLICY),
    Scenario(leave),
    Scenario(register_methods),
]
