"""Lanes: calls that go before the levels, for as long as they take no more than their share."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from faircall.shm.draws import RESERVED, SERVICE
from faircall.shm.offers import ACCEPTED, LEVEL_FULL, PRINCIPAL_FULL
from faircall.shm.policy import QueuePolicy

from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

LANE = {"service": SMALL.levels + SERVICE, "reserved": SMALL.levels + RESERVED}
ONE_LEVEL = QueuePolicy(weights=(1,), capacities=(8,), max_principal=16)


def lanes(*, service: int = 0, reserved: int = 0, policy: QueuePolicy = ONE_LEVEL) -> QueuePolicy:
    """`policy` with lanes that have these shares, in thousandths."""
    return replace(policy, lane_shares=(service, reserved))


def drawn(world: World, count: int, *levels: int) -> list[int]:
    """Where the next `count` calls were, while one waits at each of `levels` before every draw."""
    reader, handler, found = world.reader(0), world.handler(1), []
    for _ in range(count):
        there = {call.level for call in reader.calls.values()}
        missing = [world.call(level=level, who=1 + level % 4) for level in levels]
        reader.offer([call for call in missing if call.level not in there])
        handler.claim()
        found.append(reader.calls[handler.claimed[0][0]].level)
        handler.run()
        handler.publish()
        reader.gather()
    return found


@pytest.mark.parametrize("share", [100, 250, 333, 1000])
@pytest.mark.parametrize("lane", LANE)
def test_while_others_wait_a_lane_gets_its_share_of_the_draws(
    make_world: MakeWorld, lane: str, share: int
) -> None:
    world = make_world(lanes(service=share) if lane == "service" else lanes(reserved=share))
    found = drawn(world, 120, 0, LANE[lane])
    for at in range(len(found)):
        for end in (at + 10, at + 30):
            window = found[at:end]
            assert window.count(LANE[lane]) <= len(window) * share / 1000 + 1
    assert found.count(LANE[lane]) == pytest.approx(120 * share / 1000, abs=1)


def test_a_call_of_a_lane_that_was_empty_goes_before_all_that_wait(make_world: MakeWorld) -> None:
    world = make_world(lanes(reserved=100))
    drawn(world, 20, 0)
    world.reader(0).offer([world.call(level=0) for _ in range(3)])
    beat = world.call(level=LANE["reserved"], who=2)
    world.reader(0).offer([beat])
    assert world.handler(1).claim() == [beat.tag]


def test_when_nobody_else_waits_calls_of_a_lane_are_free(make_world: MakeWorld) -> None:
    world = make_world(lanes(reserved=100))
    assert drawn(world, 30, LANE["reserved"]) == [LANE["reserved"]] * 30
    found = drawn(world, 30, 0, LANE["reserved"])
    assert found.count(LANE["reserved"]) == pytest.approx(3, abs=1)


def test_two_lanes_have_shares_of_their_own(make_world: MakeWorld) -> None:
    world = make_world(lanes(service=500, reserved=100))
    counts = Counter(drawn(world, 200, 0, *LANE.values()))
    assert counts[LANE["reserved"]] == pytest.approx(20, abs=1)
    assert counts[LANE["service"]] == pytest.approx(100, abs=2)
    assert counts[0] == pytest.approx(80, abs=3)


def test_lanes_that_have_used_up_their_shares_are_served_when_the_levels_are_empty(
    make_world: MakeWorld,
) -> None:
    world = make_world(lanes(service=100, reserved=100))
    assert Counter(drawn(world, 40, *LANE.values())).keys() == set(LANE.values())


def test_the_levels_share_what_is_left_by_their_weights(make_world: MakeWorld) -> None:
    world = make_world(lanes(reserved=100, policy=POLICY))
    found = drawn(world, 200, 0, 1, 2, 3, LANE["reserved"])
    ordinary = [level for level in found if level < 4]
    for at in range(len(ordinary) - 14):
        assert Counter(ordinary[at : at + 15]) == Counter({0: 8, 1: 4, 2: 2, 3: 1})


def test_what_would_go_to_a_lane_that_is_off_goes_to_level_0(make_world: MakeWorld) -> None:
    world = make_world(lanes(service=500))
    tags = [world.call(level=level) for level in (LANE["reserved"], LANE["service"])]
    assert world.reader(0).offer(tags) == [ACCEPTED, ACCEPTED]
    q, waiting = world.q, world.table.rings.waiting_word
    assert [sum(q[waiting + 2 * at : waiting + 2 * at + 2]) for at in (0, *LANE.values())] == [
        1, 1, 0,
    ]  # fmt: skip


def test_a_lane_that_is_full_refuses_and_takes_nothing_of_the_levels(
    make_world: MakeWorld,
) -> None:
    policy = QueuePolicy(weights=(1,), capacities=(4,), max_principal=16)
    world = make_world(lanes(reserved=100, policy=policy))
    calls = [world.call(level=LANE["reserved"], who=1 + at) for at in range(4)]
    assert world.reader(0).offer(calls) == [ACCEPTED] * 4
    assert world.reader(0).offer([world.call(level=LANE["reserved"], who=5)]) == [LEVEL_FULL]


def test_a_principal_has_a_part_of_a_lane_whatever_it_has_elsewhere(make_world: MakeWorld) -> None:
    policy = QueuePolicy(weights=(1,), capacities=(8,), max_principal=3)
    world = make_world(lanes(reserved=100, policy=policy))
    ordinary = [world.call(level=0) for _ in range(4)]
    assert world.reader(0).offer(ordinary) == [ACCEPTED] * 3 + [PRINCIPAL_FULL]
    beats = [world.call(level=LANE["reserved"]) for _ in range(3)]
    assert world.reader(0).offer(beats) == [ACCEPTED] * 2 + [PRINCIPAL_FULL]
    other = world.call(level=LANE["reserved"], who=2)
    assert world.reader(1).offer([other]) == [ACCEPTED]


def test_a_lane_that_is_switched_off_is_emptied_first(make_world: MakeWorld) -> None:
    world = make_world(lanes(reserved=100))
    beats = [world.call(level=LANE["reserved"], who=who) for who in (1, 2, 3)]
    world.reader(0).offer([*beats, world.call(level=0, who=4)])
    world.table.set_policy(ONE_LEVEL)
    assert [tag for _ in beats for tag in world.handler(1).work()] == [call.tag for call in beats]


def test_callers_take_turns_in_a_lane(make_world: MakeWorld) -> None:
    world = make_world(lanes(reserved=100))
    calls = [world.call(level=LANE["reserved"], who=who) for who in (1, 1, 2)]
    world.reader(0).offer(calls)
    order = [tag for _ in calls for tag in world.handler(1).work()]
    assert order == [calls[at].tag for at in (0, 2, 1)]


def test_a_rebuild_leaves_calls_in_their_lanes(make_world: MakeWorld) -> None:
    world = make_world(lanes(service=100, reserved=100))
    calls = [world.call(level=level) for level in (0, *LANE.values())]
    world.reader(0).offer(calls)
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert world.audit() == []
    q, waiting = world.q, world.table.rings.waiting_word
    assert [sum(q[waiting + 2 * at : waiting + 2 * at + 2]) for at in (0, *LANE.values())] == [
        1, 1, 1,
    ]  # fmt: skip
