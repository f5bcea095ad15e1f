"""The call table: publish, collect, withdraw."""

from __future__ import annotations

from faircall.shm import states
from faircall.shm.answers import ANSWERED, GIVEN_UP, WITHDRAWN
from faircall.shm.offers import ACCEPTED
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import ABANDONED, DONE, FREE, RUNNING

from ..fault.world import SMALL, World
from .conftest import MakeWorld


def slots_of(world: World) -> list[int]:
    return list(world.reader(0).calls)


# -- publish and collect -----------------------------------------------------------------------


def test_an_answer_goes_to_its_reader(world: World) -> None:
    world.reader(0).offer([world.call()])
    world.reader(1).offer([world.call(who=2)])
    world.handler(0).work()
    assert world.reader(1).gather() == []
    assert world.reader(0).gather() == [1]
    world.handler(0).work()
    assert world.reader(1).gather() == [2]


def test_answers_are_collected_as_far_as_there_is_place(world: World) -> None:
    world.reader(0).offer([world.call() for _ in range(5)])
    while world.handler(0).work():
        pass
    assert len(world.reader(0).gather(most=2)) == 2
    assert world.audit() == []
    assert len(world.reader(0).gather(most=2)) == 2
    assert len(world.reader(0).gather()) == 1
    assert world.reader(0).gather() == []


def test_the_answer_ring_goes_round(world: World) -> None:
    for _ in range(5 * SMALL.slots):
        world.reader(0).offer([world.call()])
        assert len(world.handler(0).work()) == 1
        assert len(world.reader(0).gather()) == 1
    world.finish()
    world.verify()


def test_a_rebuild_of_the_answers_gives_none_twice(world: World) -> None:
    world.reader(0).offer([world.call() for _ in range(4)])
    while world.handler(0).work():
        pass
    tags = world.reader(0).gather(most=2)
    with world.table.answer_locks[0]:
        world.table.recovery.rebuild_answers(0)
    tags += world.reader(0).gather()
    assert sorted(tags) == [1, 2, 3, 4]


def test_a_late_answer_of_another_generation_is_dropped(world: World) -> None:
    world.reader(0).offer([world.call()])
    out, tokens = [0], [0]
    world.table.claim(0, 0, out, tokens)
    world.table.recovery.reap_reader(0)
    stale = tokens[0] + (1 << states.GENERATION_SHIFT)
    world.table.publish(0, [(out[0], stale)])
    assert world.state(out[0]) == ABANDONED
    world.table.publish(0, [(out[0], tokens[0])])
    assert world.state(out[0]) == DONE
    world.table.publish(0, [(out[0], tokens[0])])
    assert world.audit() == []


def test_only_what_is_named_is_published(world: World) -> None:
    world.reader(0).offer([world.call(), world.call()])
    handler = world.handler(0)
    handler.claim()
    handler.claim()
    handler.run()
    handler.run()
    world.table.publish(0, handler.ready[:1])
    assert [world.state(slot) for slot, _ in handler.ready] == [DONE, RUNNING]


# -- withdraw ----------------------------------------------------------------------------------


def test_the_outcome_of_a_withdrawal_tells_what_became_of_the_call(world: World) -> None:
    reader, handler = world.reader(0), world.handler(0)
    reader.offer([world.call(), world.call(), world.call()])
    handler.work()
    handler.claim()
    slots, outcomes = slots_of(world), [9, 9, 9]
    world.table.withdraw(0, slots, outcomes)
    assert outcomes == [ANSWERED, GIVEN_UP, WITHDRAWN]
    assert [world.state(slot) for slot in slots] == [DONE, ABANDONED, FREE]
    world.table.withdraw(0, slots[1:2], outcomes)
    assert outcomes[0] == GIVEN_UP, "it is still given up, not answered"
    assert world.audit() == []


def test_a_withdrawn_call_makes_room_at_once(make_world: MakeWorld) -> None:
    world = make_world(QueuePolicy(weights=(1,), capacities=(1,), max_principal=1))
    reader = world.reader(0)
    for _ in range(3):
        assert reader.offer([world.call()]) == [ACCEPTED]
        assert reader.withdraw(slots_of(world)) == [WITHDRAWN]
    assert world.pages.leaked() == 0


def test_a_call_given_up_is_not_run_if_it_has_not_begun(world: World) -> None:
    reader, handler = world.reader(0), world.handler(0)
    reader.offer([world.call()])
    handler.claim()
    reader.withdraw(slots_of(world))
    handler.run()
    handler.publish()
    assert reader.gather() == []
    assert world.ledger.runs[1] == 0
    world.finish()
    world.verify()
