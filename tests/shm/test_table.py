"""The call table: enqueue and claim. (Answers: test_table_answers.)"""

from __future__ import annotations

from dataclasses import replace

import pytest

from faircall.shm import states
from faircall.shm.layout import SLOT, word_of
from faircall.shm.offers import ACCEPTED, LEVEL_FULL, PRINCIPAL_FULL
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import DONE, FREE, QUEUED, RUNNING, TAKEN
from faircall.shm.table import CallTable

from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld


def slots_of(world: World, reader: int = 0) -> list[int]:
    return list(world.reader(reader).calls)


def level_of(world: World, slot: int) -> int:
    return world.q[world.reader(0).own(slot)] >> states.LEVEL_SHIFT & states.LEVEL_MASK


def generation_of(world: World, slot: int) -> int:
    return world.q[world.reader(0).own(slot)] >> states.GENERATION_SHIFT


def nobody_idle(world: World) -> None:
    world.q[world.table.idle_word] = 0


def test_a_call_goes_through_all_states(world: World) -> None:
    reader, handler = world.reader(0), world.handler(0)
    reader.offer([world.call()])
    (slot,) = slots_of(world)
    assert world.state(slot) == QUEUED
    handler.claim()
    assert world.state(slot) == RUNNING
    handler.run()
    handler.publish()
    assert world.state(slot) == DONE
    world.table.collect(0, [0])
    assert world.state(slot) == TAKEN
    world.table.release(slot)
    assert world.state(slot) == FREE
    assert world.audit() == []


def test_a_staged_slot_is_nobodys_business(world: World) -> None:
    slot = world.reader(0).stage(world.call())
    assert world.state(slot) == FREE
    assert world.handler(0).claim() == []
    assert world.audit() == []


def test_a_released_slot_is_of_the_next_generation(world: World) -> None:
    before = generation_of(world, 0)
    world.table.release(0)
    assert generation_of(world, 0) == before + 1
    world.q[world.reader(0).own(0)] = states.state_word(TAKEN, generation=0xFFFF_FFFF)
    world.table.release(0)
    assert generation_of(world, 0) == 0


# -- enqueue -----------------------------------------------------------------------------------


def test_a_full_level_passes_calls_on_to_lower_ones(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, capacities=(2, 1, 1, 1)))
    verdicts = world.reader(0).offer([world.call(level=0) for _ in range(6)])
    assert verdicts == [ACCEPTED] * 5 + [LEVEL_FULL]
    assert [level_of(world, slot) for slot in slots_of(world)] == [0, 0, 1, 2, 3]
    assert world.audit() == []


def test_calls_never_overflow_upwards(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, capacities=(2, 1, 1, 1)))
    verdicts = world.reader(0).offer([world.call(level=3), world.call(level=3)])
    assert verdicts == [ACCEPTED, LEVEL_FULL]


def test_every_level_that_was_full_counts_the_overflow(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, capacities=(1, 1, 1, 1)))
    world.reader(0).offer([world.call(level=1) for _ in range(4)])
    counts = world.table.overflowed_word
    assert list(world.q[counts : counts + 4]) == [0, 3, 2, 1]


def test_a_level_below_the_lowest_is_the_lowest(make_world: MakeWorld) -> None:
    world = make_world(QueuePolicy(weights=(2, 1), capacities=(4, 4)))
    world.reader(0).offer([world.call(level=3)])
    assert [level_of(world, slot) for slot in slots_of(world)] == [1]


def test_a_principal_may_not_fill_the_queue(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, max_principal=2))
    calls = [world.call(who=who, level=level) for who, level in ((1, 0), (1, 1), (1, 2), (2, 0))]
    assert world.reader(0).offer(calls) == [ACCEPTED, ACCEPTED, PRINCIPAL_FULL, ACCEPTED]
    world.handler(0).claim()
    assert world.reader(0).offer([world.call(who=1)]) == [ACCEPTED]


def test_a_claim_makes_room(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, capacities=(1, 1, 1, 1)))
    assert world.reader(0).offer([world.call(level=3)]) == [ACCEPTED]
    world.handler(0).claim()
    assert world.reader(0).offer([world.call(level=3)]) == [ACCEPTED]


def test_as_many_sleepers_are_woken_as_there_are_calls(make_world: MakeWorld) -> None:
    world = make_world(POLICY, replace(SMALL, handlers=70))
    table, reader = world.table, world.reader(0)
    assert table.enqueue([(reader.stage(world.call()), 0)], [0]) == 0b1
    slots = [reader.stage(world.call()) for _ in range(2)]
    assert table.enqueue([(slot, 0) for slot in slots], [0, 0]) == 0b110
    world.q[table.idle_word], world.q[table.idle_word + 1] = 0, 0b100
    assert table.enqueue([(reader.stage(world.call()), 0)], [0]) == 1 << 66
    assert table.enqueue([(reader.stage(world.call()), 0)], [0]) == 0


def test_short_calls_wake_only_whom_they_need(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, claim_ahead_ns=1000), replace(SMALL, handlers=8))
    reader = world.reader(0)
    slots = [reader.stage(world.call(expected_ns=400)) for _ in range(4)]
    wake = world.table.enqueue([(slot, 0) for slot in slots], [0] * 4)
    assert wake.bit_count() == 2  # 1,600 ns of work, 1,000 ns for each


def test_refused_calls_wake_nobody(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, max_principal=1))
    reader = world.reader(0)
    reader.offer([world.call()])
    assert world.table.enqueue([(reader.stage(world.call()), 0)], [0]) == 0


# -- claim -------------------------------------------------------------------------------------


def test_who_finds_nothing_is_idle_and_who_finds_something_is_not(world: World) -> None:
    nobody_idle(world)
    assert world.handler(1).claim() == []
    assert world.q[world.table.idle_word] == 0b10
    world.reader(0).offer([world.call()])
    assert world.q[world.table.idle_word] == 0, "woken, so it is idle no more"
    world.handler(1).claim()
    assert world.q[world.table.idle_word] == 0


def test_one_call_is_claimed_while_somebody_is_idle(world: World) -> None:
    nobody_idle(world)
    world.handler(1).claim()
    slots = [world.reader(0).stage(world.call(expected_ns=10)) for _ in range(3)]
    world.table.enqueue([(slot, 0) for slot in slots], [0] * 3)
    world.q[world.table.idle_word] = 0b10
    assert len(world.handler(0).claim()) == 1


def test_several_short_calls_are_claimed_at_once_up_to_the_expected_time(
    make_world: MakeWorld,
) -> None:
    world = make_world(replace(POLICY, claim_ahead_ns=1000))
    world.reader(0).offer([world.call(expected_ns=400) for _ in range(6)])
    nobody_idle(world)
    assert len(world.handler(0).claim(most=8)) == 3  # 1,200 ns: the third reaches 1,000
    assert len(world.handler(0).claim(most=2)) == 2


def test_a_call_of_unknown_length_is_claimed_alone(world: World) -> None:
    world.reader(0).offer([world.call(expected_ns=0) for _ in range(3)])
    nobody_idle(world)
    assert len(world.handler(0).claim()) == 1


def test_a_token_is_the_state_word_of_the_claim(world: World) -> None:
    world.reader(0).offer([world.call(level=2)])
    out, tokens = [0], [0]
    assert world.table.claim(1, 77, out, tokens) == 1
    assert tokens[0] == world.q[world.reader(0).own(out[0])]
    assert "RUNNING level=2 owner=1 attempts=0" in states.describe(tokens[0])
    assert world.table.words[out[0], word_of(SLOT, "claimed_ns")] == 77


# -- two views ---------------------------------------------------------------------------------


def test_another_process_sees_a_changed_policy_at_its_next_operation(world: World) -> None:
    other = CallTable(world.shared.segment)
    with other.queue_lock:
        assert other.load_policy() == POLICY
    changed = replace(POLICY, max_principal=1)
    world.table.set_policy(changed)
    with other.queue_lock:
        assert other.load_policy() == changed


def test_more_levels_than_the_segment_has_are_refused(world: World) -> None:
    with pytest.raises(ValueError, match="levels=5, this segment has 4"):
        world.table.set_policy(QueuePolicy(weights=(1,) * 5, capacities=(1,) * 5))
    assert world.audit() == []


def test_who_leaves_hands_a_wake_up_on(world: World) -> None:
    """Handler 0 was rung for a call, and told to leave, before it could look."""
    table, idle = world.table, world.table.idle_word
    world.q[idle] = 0b11
    world.reader(0).offer([world.call()])
    woken = 0b11 & ~world.q[idle]
    assert woken == 0b01
    assert table.leave(0) == 0b10
    assert world.q[idle] == 0
    assert world.handler(1).work() == [1]


def test_who_leaves_without_a_call_wakes_nobody(world: World) -> None:
    world.q[world.table.idle_word] = 0b11
    assert world.table.leave(0) == 0
    assert world.q[world.table.idle_word] == 0b10
