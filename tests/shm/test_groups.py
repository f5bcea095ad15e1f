"""Groups of handlers on the call table: what one has waiting is nothing to the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from faircall.shm.offers import ACCEPTED, LEVEL_FULL, PRINCIPAL_FULL
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import W_TURN

from ..fault.world import GROUPED, LATER, OTHER_GROUP, POLICY, World

FEW = replace(POLICY, group_capacities=((2, 1, 1, 1),), max_principal=3)


@pytest.fixture
def world() -> Iterator[World]:
    with closing(World(FEW, replace(GROUPED, slots=32, small_pages=96))) as world:
        yield world
        world.finish()
        world.verify()


def offer(world: World, level: int, count: int = 1, who: int = 1) -> list[int]:
    return world.reader(0).offer([world.call(who=who, level=level) for _ in range(count)])


def test_a_handler_claims_calls_of_its_group_alone(world: World) -> None:
    offer(world, 0, who=1)
    offer(world, OTHER_GROUP, who=2)
    assert world.handler(2).claim(most=1) == [2]
    assert world.handler(2).claim() == []
    assert world.handler(1).claim() == [1]


def test_a_full_group_refuses_and_the_other_does_not(world: World) -> None:
    for who in (1, 2, 3):
        offer(world, OTHER_GROUP, 2, who)
    assert offer(world, OTHER_GROUP, who=4) == [LEVEL_FULL]
    assert offer(world, 0, 3, who=4) == [ACCEPTED] * 3


def test_who_has_his_share_of_one_group_may_use_the_other(world: World) -> None:
    assert offer(world, 0, 4) == [ACCEPTED] * 3 + [PRINCIPAL_FULL]
    assert offer(world, OTHER_GROUP) == [ACCEPTED]


def test_turns_in_one_group_are_none_in_the_other(world: World) -> None:
    offer(world, 0, 3, who=1)
    offer(world, OTHER_GROUP, who=1)
    offer(world, OTHER_GROUP, who=2)
    turns = [
        world.q[world.reader(0).own(slot) + W_TURN] for slot in list(world.reader(0).calls)[3:]
    ]
    assert turns[0] == turns[1], "as of callers who come for the first time"
    assert [world.handler(3).claim(most=1) for _ in range(2)] == [[4], [5]]


def test_an_enqueue_wakes_handlers_of_its_group(world: World) -> None:
    world.q[world.table.idle_word] = 0b1111
    verdicts = [ACCEPTED] * 2
    slots = [world.reader(0).stage(world.call(who=2, level=OTHER_GROUP)) for _ in range(2)]
    calls = [(slot, OTHER_GROUP) for slot in slots]
    assert world.table.enqueue(calls, verdicts) == 0b1100
    assert world.q[world.table.idle_word] == 0b0011


def test_whoever_opens_a_limiter_wakes_the_other_group_for_its_calls(world: World) -> None:
    world.close_limiter(0, 1000)
    for level in (OTHER_GROUP, OTHER_GROUP + 1):
        world.reader(0).offer([world.call(who=2, level=level, limiters=(0,))])
    assert world.handler(2).claim() == []
    world.q[world.table.idle_word] = 0b1111
    assert world.handler(0).claim(LATER) == []
    assert world.table.claims.wake == 0b1100


def test_a_lane_of_a_group_is_its_own() -> None:
    policy = replace(FEW, lane_shares=(0, 500))
    with closing(World(policy, GROUPED)) as world:
        lane = world.shared.geometry.levels + 1
        offer(world, OTHER_GROUP + lane)
        offer(world, lane, who=2)
        assert world.handler(0).claim(most=1) == [2]
        assert world.handler(2).claim(most=1) == [1]
        world.finish()
        world.verify()


def test_a_lane_that_is_off_is_the_level_0_of_its_group(world: World) -> None:
    offer(world, OTHER_GROUP + world.shared.geometry.levels)
    assert world.handler(2).claim(most=1) == [1]
    assert world.handler(0).claim() == []


def test_fewer_levels_are_fewer_in_every_group(world: World) -> None:
    offer(world, 3, who=1)
    offer(world, OTHER_GROUP + 3, who=2)
    world.table.set_policy(QueuePolicy(weights=(1,), capacities=(8,), group_capacities=((4,),)))
    assert world.audit() == []
    assert world.handler(2).claim(most=1) == [2]
    assert world.handler(0).claim(most=1) == [1]


def test_a_count_of_a_group_is_audited(world: World) -> None:
    offer(world, OTHER_GROUP)
    for word in (world.table.waiting_words[1], world.table.group_waiting0 + 2 * 1 + 1):
        world.q[word] += 1
        assert world.audit() != []
        world.q[word] -= 1
    assert world.audit() == []


def test_a_policy_keeps_the_capacities_of_groups() -> None:
    with closing(World(FEW, GROUPED)) as world:
        assert world.table.follow_policy() == FEW
        assert world.table.policy.rooms[OTHER_GROUP : OTHER_GROUP + 4] == (2, 1, 1, 1)
