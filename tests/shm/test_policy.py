from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faircall.shm.layout import LANES, MAX_LEVELS
from faircall.shm.offers import LEVEL_FULL
from faircall.shm.policy import PolicyBlocks, QueuePolicy

from ..fault.kill import start, wait_for
from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

OTHER = QueuePolicy(
    weights=(5, 3),
    capacities=(7, 9),
    in_turn=False,
    scan_from_cursor=True,
    claim_ahead_ns=123,
    short_ns=1234,
    max_principal=4,
)


def in_force(world: World) -> QueuePolicy:
    with world.table.queue_lock:
        return world.table.load_policy()


def test_every_value_comes_back(world: World) -> None:
    world.table.set_policy(OTHER)
    assert in_force(world) == OTHER


def test_a_policy_that_is_written_is_not_in_force_before_the_last_store(world: World) -> None:
    blocks = PolicyBlocks(world.shared.segment)
    version = world.q[blocks.version_word]
    with world.table.queue_lock:
        blocks.write(OTHER)
    assert world.q[blocks.version_word] == version + 1
    world.q[blocks.version_word] = version  # as if it had died just before
    assert in_force(world) == POLICY


def test_two_blocks_take_turns(world: World) -> None:
    for weight in range(1, 6):
        policy = replace(OTHER, weights=(weight, 1))
        world.table.set_policy(policy)
        assert in_force(world) == policy


def test_other_processes_follow(world: World) -> None:
    def follow() -> None:
        assert in_force(world) == OTHER

    assert in_force(world) == POLICY
    world.table.set_policy(OTHER)
    assert wait_for(start(follow)) == 0


def test_calls_of_levels_that_go_join_the_lowest(make_world: MakeWorld) -> None:
    world = make_world()
    world.close_limiter(0, 1000)
    world.reader(0).offer([world.call(level=3, limiters=(0,))])
    assert world.handler(1).claim() == []
    world.reader(0).offer([world.call(level=level) for level in (0, 1, 2, 3)])
    world.table.set_policy(QueuePolicy(weights=(2, 1), capacities=(4, 4)))
    assert world.audit() == []
    world.finish()
    world.verify()
    assert [len(order) for order in world.run_order()] == [1, 4, 0, 0]


def test_levels_may_come_back(world: World) -> None:
    world.table.set_policy(OTHER)
    world.table.set_policy(POLICY)
    world.reader(0).offer([world.call(level=3)])
    world.finish()
    world.verify()
    assert world.run_order()[3] == [1]


def test_a_smaller_capacity_keeps_what_waits_and_refuses_more(world: World) -> None:
    world.reader(0).offer([world.call(level=3) for _ in range(3)])
    world.table.set_policy(replace(POLICY, capacities=(8, 8, 8, 2)))
    assert world.reader(0).offer([world.call(level=3)]) == [LEVEL_FULL]
    world.finish()
    world.verify()
    assert len(world.run_order()[3]) == 3


def test_the_cursor_stays_on_a_level_that_there_is(world: World) -> None:
    world.q[world.table.draws.cursor_word] = 3
    world.table.set_policy(OTHER)
    assert world.q[world.table.draws.cursor_word] < 2
    assert 1 <= world.q[world.table.draws.credit_word] <= 5


def test_as_many_levels_as_there_can_be(make_world: MakeWorld) -> None:
    levels = MAX_LEVELS - LANES
    most = QueuePolicy(weights=tuple(range(1, levels + 1)), capacities=(3,) * levels)
    world = make_world(most, replace(SMALL, levels=levels))
    assert in_force(world) == most
    world.reader(0).offer([world.call(level=levels - 1)])
    world.finish()
    world.verify()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weights": (1, 2)}, "2 weights for 4 capacities"),
        ({"weights": (), "capacities": ()}, "levels must be 1 to 14"),
        ({"weights": (1,) * 17, "capacities": (1,) * 17}, "levels must be 1 to 14"),
        ({"weights": (8, 4, 0, 1)}, "must be positive"),
        ({"capacities": (8, 4, 2, -1)}, "must be positive"),
        ({"max_principal": 0}, "max_principal must be positive"),
        ({"claim_ahead_ns": -1}, "times not negative"),
        ({"short_ns": -1}, "times not negative"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(POLICY, **values)
