"""What janitor and administrators do, to be cut short; a new janitor does it again."""

from __future__ import annotations

from faircall.shm import states
from faircall.shm.pages import ANSWER
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import DONE, HELD, QUEUED, RUNNING, TAKEN

from .handlers import OPENS_NS, waiting
from .scenario import HANDLER, READER, Act, Scenario
from .world import POLICY, World


def claims_of_all_kinds(world: World) -> None:
    """Handler 0 dies with one answered, one begun, one given up and two that did not begin."""
    reader, handler = world.reader(0), world.handler(0)
    reader.offer([world.call(idempotent=tag == 3, answers=9000) for tag in (1, 2, 3, 4, 5)])
    for _ in range(5):
        handler.claim()
    handler.run()
    slots = [slot for slot, _ in handler.claimed]
    world.pages.take(slots[1], ANSWER, 9000)  # it was about to store its answer
    slot, token = handler.claimed[1]
    world.q[handler.current] = token >> states.GENERATION_SHIFT << 32 | slot + 1
    world.ledger.ran(3, 0)
    reader.withdraw([slots[3]])


def reap_handler(world: World) -> Act:
    claims_of_all_kinds(world)
    waiting(world)

    def finished() -> None:
        status = [int(world.ledger.status[tag]) for tag in (1, 2, 3, 4, 5)]
        assert status == [1, 1, 1, 1, 0]  # the fifth was given up by its client
        assert world.ledger.runs[3] == 2

    return Act(
        operation=lambda: world.table.recovery.reap_handler(0),
        dead=((HANDLER, 0),),
        finished=finished,
        keeps_order=False,
    )


def reap_reader(world: World) -> Act:
    """Reader 0 dies with calls in every state, a staged call and a warm page."""
    reader, handler = world.reader(0), world.handler(1)
    world.close_limiter(0, OPENS_NS)
    reader.offer([world.call(limiters=(0,))])
    assert handler.claim() == []
    reader.offer([world.call(answers=9000) for _ in range(4)])
    for _ in range(3):
        handler.claim()
    handler.run()
    handler.run()
    handler.publish()
    world.table.collect(0, [0])
    reader.offer([world.call(asks=70_000)])
    reader.stage(world.call(asks=9000))
    world.reader(1).offer([world.call(who=2)])
    found = {world.state(slot) for slot in reader.calls}
    assert found >= {QUEUED, HELD, RUNNING, DONE, TAKEN}
    return Act(operation=lambda: world.table.recovery.reap_reader(0), dead=((READER, 0),))


def evict(world: World) -> Act:
    """Nobody uses rows 4 and 5 any more."""
    rows = (4, 5)
    names = [world.names.identities.name(row) for row in rows]
    before = [world.names.reference(row) for row in rows]

    def repaired() -> None:
        for row, name, reference in zip(rows, names, before, strict=True):
            if world.names.identities.find(name) < 0:
                assert world.names.reference(row) != reference, "freed, but not of another age"
        used = world.names.identities.used_rows()
        assert [row for row in (0, 1, 2, 3) if row in used] == [0, 1, 2, 3]

    return Act(operation=lambda: world.names.evict(list(rows)), repaired=repaired)


def changed(world: World, policy: QueuePolicy) -> Act:
    """`policy` takes the place of the one in force, or does not: nothing in between."""
    old = world.table.load_policy()

    def repaired() -> None:
        with world.table.queue_lock:
            assert world.table.load_policy() in (old, policy)
        assert world.q[world.table.draws.cursor_word] < policy.levels or policy.levels < old.levels

    def operation() -> None:
        world.table.set_policy(policy)

    return Act(operation=operation, repaired=repaired, keeps_order=False)


def set_weights(world: World) -> Act:
    waiting(world)
    return changed(world, QueuePolicy(weights=(3, 1, 1, 1), capacities=(4, 4, 4, 4)))


def fewer_levels(world: World) -> Act:
    """Calls wait and are held on levels that go."""
    world.close_limiter(0, OPENS_NS)
    world.reader(1).offer([world.call(level=3, limiters=(0,), who=5)])
    assert world.handler(0).claim() == []
    world.reader(0).offer([world.call(level=level, who=4) for level in (1, 2, 3, 3)])
    waiting(world)
    return changed(world, QueuePolicy(weights=(2, 1), capacities=(4, 4)))


def arrival_order(world: World) -> Act:
    """Whoever comes after the change goes behind all that wait."""
    waiting(world)
    act = changed(world, QueuePolicy(capacities=(8, 8, 8, 8), in_turn=False, max_principal=16))
    before = {tag for tag, call in world.calls.items() if call.level == 0}
    later = [world.call(who=who) for who in (4, 1)]

    def repaired() -> None:
        act.repaired()
        assert world.reader(0).offer(later) == [0, 0]

    def finished() -> None:
        with world.table.queue_lock:
            in_turn = world.table.load_policy().in_turn
        if not in_turn:
            order = world.run_order()[0]
            assert set(order[:-2]) == before
            assert order[-2:] == [call.tag for call in later], "not in the order of arrival"

    return Act(operation=act.operation, repaired=repaired, finished=finished, keeps_order=False)


def many_fewer_levels(world: World) -> Act:
    """More calls than one batch wait on levels that go: the lock is free between two stores."""
    world.table.change.batch = 2
    world.reader(0).offer([world.call(level=1 + n % 3, who=1 + n % 3) for n in range(4)])
    world.reader(1).offer([world.call(level=3, who=1 + n % 3) for n in range(2)])
    return changed(world, QueuePolicy(weights=(1,), capacities=(8,), in_turn=False))


def rebuild_pages(world: World) -> Act:
    """The pages' index is derived anew, while a reader still has chains to give back."""
    reader = world.reader(0)
    reader.offer([world.call(asks=9000), world.call(asks=70_000)])
    slots = list(reader.calls)
    outcomes = [0, 0]
    chains = [chain for slot in slots for chain in reader.chains(slot, reader.generation(slot))]
    world.table.withdraw(0, slots, outcomes)
    reader.calls.clear()
    reader.begin()

    def operation() -> None:
        with world.pages.lock:
            world.pages.rebuild()

    def repaired() -> None:
        reader.give_back(chains)
        assert world.pages.audit() == []
        assert world.pages.leaked() == 0

    return Act(operation=operation, repaired=repaired)


SCENARIOS = [
    Scenario(reap_handler),
    Scenario(reap_reader),
    Scenario(evict),
    Scenario(set_weights),
    Scenario(fewer_levels),
    Scenario(arrival_order),
    Scenario(many_fewer_levels),
    Scenario(rebuild_pages, POLICY),
]
