"""What the janitor does after a death: reaping. (Deaths themselves are in tests/fault.)"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from faircall.shm import states
from faircall.shm.pages import ANSWER
from faircall.shm.states import ABANDONED, DONE, FREE, HELD, QUEUED, RUNNING, TAKEN, Status

from ..fault.world import SMALL, World
from .conftest import MakeWorld


def begin(world: World, number: int = 0) -> int:
    """Handler `number` claims a call and begins it; the slot."""
    handler = world.handler(number)
    handler.claim()
    slot, token = handler.claimed[-1]
    world.q[handler.current] = token >> states.GENERATION_SHIFT << 32 | slot + 1
    world.ledger.ran(handler.tag(slot), 0)
    return slot


def attempts_of(world: World, slot: int) -> int:
    return world.q[world.reader(0).own(slot)] >> states.ATTEMPT_SHIFT & states.ATTEMPT_MASK


def test_a_call_that_began_is_answered_that_its_handler_died(world: World) -> None:
    world.reader(0).offer([world.call()])
    slot = begin(world)
    assert world.table.recovery.reap_handler(0) == {"answered": [], "died": [slot], "requeued": []}
    assert world.reader(0).gather() == [1]
    assert world.ledger.status[1] == Status.DIED


def test_a_call_that_never_began_is_run_by_another(world: World) -> None:
    world.reader(0).offer([world.call()])
    world.handler(0).claim()
    (slot,) = world.reader(0).calls
    assert world.table.recovery.reap_handler(0)["requeued"] == [slot]
    assert attempts_of(world, slot) == 0
    assert world.handler(1).work() == [1]
    world.reader(0).gather()
    assert world.ledger.status[1] == Status.RESULT


def test_an_answer_that_was_complete_is_published(world: World) -> None:
    world.reader(0).offer([world.call()])
    world.handler(0).claim()
    world.handler(0).run()
    (slot,) = world.reader(0).calls
    assert world.table.recovery.reap_handler(0)["answered"] == [slot]
    world.reader(0).gather()
    assert world.ledger.status[1] == Status.RESULT


def test_the_answer_of_the_slots_last_call_is_no_answer(world: World) -> None:
    """An answer word of another generation counts for nothing."""
    reader = world.reader(0)
    reader.offer([world.call()])
    world.handler(0).work()
    reader.gather()
    reader.offer([world.call()])
    slot = begin(world)
    assert world.table.recovery.reap_handler(0)["died"] == [slot]


def test_a_repeatable_call_is_run_three_times_at_most(world: World) -> None:
    world.reader(0).offer([world.call(idempotent=True)])
    (slot,) = world.reader(0).calls
    for attempt in (1, 2):
        begin(world)
        assert world.table.recovery.reap_handler(0)["requeued"] == [slot]
        assert attempts_of(world, slot) == attempt
        world.handler(0).begin()
    begin(world)
    assert world.table.recovery.reap_handler(0)["died"] == [slot]
    assert world.ledger.runs[1] == states.MAX_ATTEMPTS


def test_a_call_given_up_is_not_run_again(world: World) -> None:
    world.reader(0).offer([world.call(idempotent=True)])
    world.handler(0).claim()
    (slot,) = world.reader(0).calls
    world.reader(0).withdraw([slot])
    assert world.table.recovery.reap_handler(0)["died"] == [slot]
    assert world.state(slot) == DONE
    assert world.reader(0).gather() == []
    assert world.state(slot) == FREE


def test_only_the_dead_handlers_calls_are_touched(world: World) -> None:
    world.reader(0).offer([world.call(), world.call()])
    world.handler(1).claim()
    world.handler(0).claim()
    living = world.handler(1).claimed[0][0]
    world.bury_handler(0)
    assert world.state(living) == RUNNING
    world.finish()
    world.verify()


def test_the_pages_of_an_unfinished_answer_are_free_before_the_call_goes_on(world: World) -> None:
    """Afterwards the slot may be answered by another handler, with pages that look the same."""
    world.reader(0).offer([world.call(idempotent=True, answers=9000)])
    slot = begin(world)
    world.pages.take(slot, ANSWER, 9000)
    before = world.pages.free_pages()
    world.table.recovery.reap_handler(0)
    assert world.pages.free_pages()[0] == before[0] + 3
    world.handler(0).begin()
    world.finish()
    world.verify()


def test_the_pages_of_a_finished_answer_stay(world: World) -> None:
    world.reader(0).offer([world.call(answers=9000)])
    world.handler(0).claim()
    world.handler(0).run()
    world.bury_handler(0)
    assert world.reader(0).gather() == [1]
    world.finish()
    world.verify()


def test_a_dead_handler_is_not_woken(make_world: MakeWorld) -> None:
    world = make_world(geometry=replace(SMALL, handlers=70))
    world.table.recovery.reap_handler(65)
    assert world.q[world.table.idle_word + 1] == 0b11_1101
    assert world.q[world.table.idle_word] == (1 << 64) - 1


def test_nobody_waits_for_a_dead_readers_calls(world: World) -> None:
    world.close_limiter(0, 1000)
    reader = world.reader(0)
    reader.offer([world.call(limiters=(0,))])
    assert world.handler(1).claim() == []
    reader.offer([world.call() for _ in range(4)])
    world.handler(1).work()
    world.handler(1).work()
    world.table.collect(0, [0])
    world.handler(1).claim()
    found = world.table.recovery.reap_reader(0)
    names = [states.STATES[state] for state in (FREE, QUEUED, HELD, RUNNING, DONE, TAKEN)]
    assert found == dict(zip(names, (3, 1, 1, 1, 1, 1), strict=True))
    assert world.table.recovery.count_states() == {"FREE": 15, "ABANDONED": 1}
    assert world.audit() == []


def test_what_runs_for_a_dead_reader_comes_to_its_successor(world: World) -> None:
    reader = world.reader(0)
    reader.offer([world.call(answers=9000)])
    world.handler(1).claim()
    world.bury_reader(0)
    assert len(reader.free) == SMALL.slots - 1
    world.handler(1).run()
    world.handler(1).publish()
    assert reader.gather() == []
    assert len(reader.free) == SMALL.slots
    world.finish()
    world.verify()


def test_reaping_is_for_one_reader(world: World) -> None:
    world.reader(1).offer([world.call(), world.call()])
    world.bury_reader(0)
    world.finish()
    world.verify()
    assert list(world.ledger.answers[[1, 2]]) == [1, 1]


def test_reaping_again_changes_nothing_but_generations(world: World) -> None:
    world.reader(0).offer([world.call(), world.call()])
    world.handler(0).claim()
    for _ in range(3):
        world.table.recovery.reap_reader(0)
        world.table.recovery.reap_handler(0)
        assert world.audit() == []
    assert world.table.recovery.count_states() == {"FREE": 16}


@pytest.mark.parametrize("reader_first", [True, False])
def test_both_may_die(world: World, reader_first: bool) -> None:
    world.reader(0).offer([world.call(), world.call(answers=9000), world.call()])
    world.reader(1).offer([world.call()])
    for _ in range(3):
        world.handler(0).claim()
    world.handler(0).run()
    world.handler(0).run()
    world.handler(0).begin()
    burials = [partial(world.bury_reader, 0), partial(world.bury_handler, 0)]
    for bury in burials if reader_first else burials[::-1]:
        bury()
        assert world.audit() == []
    world.finish()
    world.verify()


def test_a_rebuild_restores_a_lost_index(world: World) -> None:
    """Every index word zeroed: the slots' words are enough."""
    world.reader(0).offer([world.call(level=level, who=who) for level in (0, 1) for who in (1, 2)])
    world.handler(1).work()
    layout, q = world.shared.segment.layout, world.q
    words = world.shared.segment.words
    words(layout.rings, (layout.answers - layout.rings) // 8)[:] = 0
    words(layout.answers, (layout.limiters - layout.answers) // 8)[:] = 0
    q[world.table.waiting_word] = 0
    assert world.audit() != []
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    with world.table.answer_locks[0]:
        world.table.recovery.rebuild_answers(0)
    assert world.audit() == []
    world.finish()
    world.verify()


def test_a_rebuild_makes_cursor_and_sequence_plausible(world: World) -> None:
    world.reader(0).offer([world.call(), world.call()])
    table, q = world.table, world.q
    q[table.draws.cursor_word], q[table.draws.credit_word], q[table.seq_word] = 99, 99, 0
    with table.queue_lock:
        table.recovery.rebuild_queue()
    assert q[table.draws.cursor_word] == 99 % 4
    assert 1 <= q[table.draws.credit_word] <= 8
    assert q[table.seq_word] == 2
    assert q[table.idle_word] == 0b11, "a spurious wake harms nobody, a lost one does"


def test_abandoned_is_done_when_its_handler_is_reaped(world: World) -> None:
    world.reader(0).offer([world.call()])
    world.handler(0).claim()
    world.table.recovery.reap_reader(0)
    (slot,) = world.reader(0).calls
    assert world.state(slot) == ABANDONED
    world.table.recovery.reap_handler(0)
    assert world.state(slot) == DONE


def test_who_is_not_yet_there_is_not_woken_after_a_death(world: World) -> None:
    """A wake-up would be lost, and calls that came from a handler would wait for nobody."""
    world.reader(0).offer([world.call()])
    world.handler(0).claim()
    world.table.recovery.reap_handler(1)
    world.shared.row("handler", 1)["status"] = states.Life.STARTING  # its service is imported
    assert not world.table.some_idles(0)
    world.table.recovery.reap_reader(1)
    assert not world.table.some_idles(0)
    world.shared.row("handler", 1)["status"] = states.Life.READY
    assert world.handler(1).claim() == []
    assert world.table.some_idles(0)


def test_a_place_that_is_empty_is_not_woken_after_a_death(world: World) -> None:
    """A wake-up that goes there would be lost."""
    world.shared.row("handler", 1)["leaving"] = 1
    world.table.recovery.reap_reader(0)
    assert world.q[world.table.idle_word] == 0b01
