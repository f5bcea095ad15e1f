"""Calls that are run together: which they are, what it costs the others, who is woken for them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from faircall.shm import states
from faircall.shm.joint import AT_ONCE, LOOKS
from faircall.shm.policy import QueuePolicy

from ..fault.world import SMALL, World
from .conftest import MakeWorld

WIDE = replace(SMALL, slots=512, turns=64, small_pages=1024, large_pages=4)
ROOMY = QueuePolicy(capacities=(512,) * 4, max_principal=512)


def offer(world: World, *kinds: tuple[int, int, bool]) -> list[int]:
    """A call of each (who, level, together), in this order; their tags."""
    calls = [world.call(who=who, level=level, together=both) for who, level, both in kinds]
    assert set(world.reader(0).offer(calls)) == {0}
    return [call.tag for call in calls]


def mixed(seed: int) -> list[tuple[int, int, bool]]:
    rng = random.Random(seed)
    return [(rng.randint(1, 5), rng.randint(0, 3), rng.random() < 0.4) for _ in range(60)]


@pytest.mark.parametrize("from_cursor", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_those_join_that_would_be_drawn_first_one_by_one(
    make_world: MakeWorld, seed: int, from_cursor: bool
) -> None:
    world = make_world(replace(ROOMY, scan_from_cursor=from_cursor), WIDE)
    offer(world, *mixed(seed))
    world.run_together(6)
    handler, joint = world.handler(1), world.table.joint
    runs = []
    while order := one_by_one(world):
        tags = handler.work()
        assert world.audit() == []
        if world.calls[tags[0]].together:
            runs.append(tags)
            assert tags == [tag for tag in order if world.calls[tag].together][:6]
        else:
            assert tags == order[:1]
    assert [len(run) for run in runs[:-1]] == [6] * (len(runs) - 1)
    assert not joint.slots


def one_by_one(world: World) -> list[int]:
    """The tags of all that waits, in the order in which they would be claimed."""
    before, methods = world.snapshot(), dict(world.table.joint.methods)
    world.table.joint.methods.clear()
    order = []
    while tags := world.handler(1).claim():
        order += tags
    world.restore(before)
    world.table.joint.methods.update(methods)
    return order


@pytest.mark.parametrize("seed", range(3))
def test_who_is_passed_over_loses_no_draw(make_world: MakeWorld, seed: int) -> None:
    """Each of the others is drawn no later, counted in invocations, than if all ran alone."""
    alone, joint = make_world(ROOMY, WIDE), make_world(ROOMY, WIDE)
    for world in (alone, joint):
        offer(world, *mixed(seed))
    order = [tag for _ in range(60) for tag in alone.handler(1).work()]
    joint.run_together(8)
    served = []
    while tags := joint.handler(1).work():
        served.append(tags)
    invocation = {tag: at for at, tags in enumerate(served) for tag in tags}
    for at, tag in enumerate(order):
        assert invocation[tag] <= at


def test_calls_of_another_method_only_are_drawn_as_ever(world: World) -> None:
    world.run_together(4)
    tags = offer(world, (1, 0, False), (1, 0, False))
    assert world.handler(1).work() == tags[:1]
    assert world.handler(1).work() == tags[1:]


def test_the_look_behind_others_is_bounded(make_world: MakeWorld) -> None:
    world = make_world(ROOMY, WIDE)
    world.run_together(4)
    first, *_ = offer(world, (1, 0, True), *[(1, 0, False)] * LOOKS, (1, 0, True))
    assert world.handler(1).work() == [first]


def test_a_large_run_is_claimed_so_many_at_a_time(make_world: MakeWorld) -> None:
    world = make_world(ROOMY, WIDE)
    world.run_together(120, within_ns=1000)
    kinds = [(1, 0, True), (2, 0, False)] * (AT_ONCE + 10)
    offer(world, *kinds)
    joint = world.table.joint
    world.handler(0).claim()
    assert (len(joint.slots), joint.unfinished) == (AT_ONCE + 1, True)
    joint.join(0, 0, last=False)
    assert (len(joint.slots), joint.unfinished) == (AT_ONCE + 10, False)
    assert not joint.gathers  # others wait, and nobody is idle
    assert world.audit() == []


def test_a_limiter_holds_what_it_has_no_room_for(world: World) -> None:
    world.run_together(4)
    world.limit(0, 2)
    calls = [world.call(together=True, limiters=(0,)) for _ in range(4)]
    world.reader(0).offer(calls)
    assert world.handler(1).work() == [calls[0].tag, calls[1].tag]
    assert world.q[world.table.held.held_word] == 2
    assert world.audit() == []


def test_what_a_death_gave_back_runs_alone(world: World) -> None:
    world.run_together(4)
    reader, handler = world.reader(0), world.handler(0)
    reader.offer([world.call(together=True, idempotent=True) for _ in range(2)])
    handler.claim()
    slot, token = handler.joined[0]
    assert len(handler.joined) == 2
    world.q[handler.current] = token >> states.GENERATION_SHIFT << 32 | slot + 1
    world.bury_handler(0)
    # The first began alone, as far as the words say; the other never did.
    assert world.handler(1).work() == [1]
    assert world.handler(1).work() == [2]


# -- waiting for more ------------------------------------------------------------------------------


def sleeping(world: World, *handlers: int) -> None:
    world.q[world.table.idle_word] = sum(1 << handler for handler in handlers)


def woken(world: World, **kind: bool) -> int:
    reader = world.reader(0)
    slot = reader.stage(world.call(**kind))
    return world.table.enqueue([(slot, 0)], [-1])


def test_one_handler_waits_and_no_second_one(world: World) -> None:
    world.run_together(3, within_ns=1000)
    offer(world, (1, 0, True))
    world.handler(0).claim()
    assert world.table.joint.gathers
    offer(world, (1, 0, True))
    world.handler(1).claim()
    assert not world.table.joint.gathers


def test_who_waits_is_rung_for_enough_and_others_for_what_is_more(world: World) -> None:
    world.run_together(3, within_ns=1000)
    offer(world, (1, 0, True))
    world.handler(0).claim()
    sleeping(world, 1)
    assert woken(world, together=True) == 0
    assert woken(world, together=True) == 1
    assert woken(world, together=True) == 2


def test_who_waits_is_rung_for_another_call_if_nobody_is_idle(world: World) -> None:
    world.run_together(3, within_ns=1000)
    offer(world, (1, 0, True))
    world.handler(0).claim()
    sleeping(world, 1)
    assert woken(world) == 2
    assert woken(world) == 1
    assert not world.q[world.table.joint.gathering_word]


def test_when_who_waits_is_dead_nobody_waits(world: World) -> None:
    world.run_together(3, within_ns=1000)
    offer(world, (1, 0, True))
    world.handler(0).claim()
    world.bury_handler(0)
    assert not world.q[world.table.joint.gathering_word]
    assert world.handler(1).work() == [1]
