"""Another policy while calls wait. (Deaths in it are in tests/fault, `janitors`.)"""

from __future__ import annotations

from dataclasses import replace

import pytest

from faircall.shm.policy import QueuePolicy
from faircall.shm.recovery import Recovery

from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

WIDE = replace(SMALL, slots=64, small_pages=160, levels=4)
ROOMY = replace(POLICY, capacities=(64,) * 4, max_principal=64)
TWO = replace(ROOMY, weights=(2, 1), capacities=(64, 64))
ONE = QueuePolicy(weights=(1,), capacities=(64,), in_turn=False, max_principal=64)


def offer(world: World, level: int, *callers: int, reader: int = 0) -> list[int]:
    """One call of each of the callers; their tags."""
    calls = [world.call(level=level, who=who) for who in callers]
    assert world.reader(reader).offer(calls) == [0] * len(calls)
    return [call.tag for call in calls]


@pytest.mark.parametrize(
    "policy",
    [
        replace(ROOMY, weights=(1, 2, 3, 4)),
        replace(ROOMY, capacities=(1, 1, 1, 1)),
        replace(ROOMY, in_turn=False),
        replace(ROOMY, backoff=False, max_principal=1, claim_ahead_ns=0),
        TWO,
        ONE,
    ],
)
def test_no_index_is_built_anew(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, policy: QueuePolicy
) -> None:
    world = make_world(ROOMY, WIDE)
    for level in range(4):
        offer(world, level, 1, 1, 2, 3)
    with monkeypatch.context() as patch:
        patch.delattr(Recovery, "rebuild_queue")
        assert world.table.set_policy(policy)
        assert not world.table.set_policy(policy)
    assert world.audit() == []
    world.finish()
    world.verify()


def test_order_of_arrival_begins_behind_all_that_wait_in_turn(make_world: MakeWorld) -> None:
    """And is kept although the level's turn moves on meanwhile."""
    world = make_world(ROOMY, WIDE)
    before = offer(world, 0, *[1] * 20, 2, 3)
    world.table.set_policy(replace(ROOMY, in_turn=False))
    later = offer(world, 0, 4, reader=1)
    for _ in range(10):
        world.handler(1).work()
    later += offer(world, 0, 1, 4, reader=1)
    world.finish()
    world.verify()
    order = world.run_order()[0]
    assert set(order[: len(before)]) == set(before)
    assert order[len(before) :] == later


def test_in_turn_again_callers_alternate(make_world: MakeWorld) -> None:
    world = make_world(replace(ROOMY, in_turn=False), WIDE)
    before = offer(world, 0, 1, 1, 1)
    world.table.set_policy(ROOMY)
    first, second, other = offer(world, 0, 1, 1, 2, reader=1)
    world.finish()
    world.verify()
    assert world.run_order()[0] == [*before, first, other, second]


def test_a_turn_that_lies_behind_the_end_of_the_ring_is_the_latest(make_world: MakeWorld) -> None:
    world = make_world(ROOMY, WIDE)
    rings = world.table.rings
    now = rings.turns - 3  # so that later turns lie before it in the ring
    for row in range(5):
        for level in range(4):
            world.q[world.table.last_turn0 + row * 16 + level] = now - 1
    world.q[rings.turn_word + 1] = now
    assert rings.latest_turn(1) == now
    offer(world, 1, 1)
    assert rings.latest_turn(1) == now
    offer(world, 1, 1, 1, 1, 1, 1, 2)
    assert rings.latest_turn(1) == now + 5
    assert rings.latest_turn(0) == world.q[rings.turn_word]


def test_a_call_whose_level_has_gone_is_drawn_before_it_is_moved(make_world: MakeWorld) -> None:
    """Whoever moves them may be late, or dead."""
    world = make_world(ROOMY, WIDE)
    gone, kept = offer(world, 3, 1), offer(world, 1, 1)
    with world.table.queue_lock:
        world.table.blocks.write(TWO)
        world.table.recovery.clamp_cursor(TWO.weights)
    assert world.handler(1).work() == kept
    assert world.handler(1).work() == gone
    world.finish()
    world.verify()


def test_the_lock_is_free_between_two_batches(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(ROOMY, WIDE)
    world.close_limiter(0, 1000)
    world.reader(0).offer([world.call(level=3, limiters=(0,)) for _ in range(5)])
    assert world.handler(1).claim() == []
    offer(world, 3, *[1, 2] * 10)
    world.table.change.batch = 4
    moved: list[int] = []
    move_some = world.table.change._move_some

    def counted() -> int:
        assert world.table.queue_lock.owner() == 0
        moved.append(move_some())
        return moved[-1]

    monkeypatch.setattr(world.table.change, "_move_some", counted)
    world.table.set_policy(ONE)
    assert moved == [4] * 6 + [1, 0]
    assert world.audit() == []
    world.finish()
    world.verify()
    assert [len(order) for order in world.run_order()] == [25, 0, 0, 0]


def test_a_change_that_was_cut_short_is_finished_by_the_next(make_world: MakeWorld) -> None:
    """Which finds its policy in force already."""
    world = make_world(ROOMY, WIDE)
    offer(world, 3, 1, 1, 2)
    with world.table.queue_lock:
        world.table.blocks.write(TWO)
    assert not world.table.set_policy(TWO)
    assert world.table.recovery.count_states()["QUEUED"] == 3
    assert all(world.table.rings.first_of_level(level) < 0 for level in (0, 2, 3))
    world.finish()
    world.verify()
