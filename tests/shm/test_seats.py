"""Seats: one caller's long calls leave a handler to the others, as long as there are others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faircall.shm.layout import METHOD, WORD, word_of
from faircall.shm.seats import KEPT_NS, LOOKED_AT
from faircall.shm.states import SHORT, Life

from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

LONG_NS = 1000
SEATS = replace(POLICY, long_ns=LONG_NS)
THREE = replace(SMALL, handlers=3, methods=32, slots=16)
HEAVY, LIGHT, THIRD = 1, 2, 3


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Three ready handlers; all methods take long."""
    return seated(make_world(SEATS, THREE))


def seated(world: World) -> World:
    first = world.table.segment.layout.methods // WORD + word_of(METHOD, "expected_ns")
    for method in range(world.table.geometry.methods):
        world.q[first + method * (METHOD.itemsize // WORD)] = LONG_NS
    for handler in range(3):
        world.shared.row("handler", handler)["status"] = Life.READY
    return world


def offer(world: World, *callers: int, level: int = 0, **kind: int) -> list[int]:
    calls = [world.call(who=who, level=level, **kind) for who in callers]
    world.reader(0).offer(calls)
    return [call.tag for call in calls]


def run(world: World, number: int) -> None:
    handler = world.handler(number)
    handler.run()
    handler.publish()
    world.reader(0).gather()


def light_has_called(world: World) -> None:
    """And was answered: there are others."""
    offer(world, LIGHT)
    assert world.handler(2).claim()
    run(world, 2)


def test_who_is_alone_has_all_handlers(world: World) -> None:
    tags = offer(world, *[HEAVY] * 4)
    late_ns = KEPT_NS + 1
    assert [world.handler(n).claim(late_ns * (n + 1)) for n in range(3)] == [[t] for t in tags[:3]]


def test_one_handler_is_left_to_the_others(world: World) -> None:
    light_has_called(world)
    tags = offer(world, *[HEAVY] * 4)
    assert [world.handler(n).claim() for n in range(3)] == [[tags[0]], [tags[1]], []]
    [light] = offer(world, LIGHT)
    assert world.handler(2).claim() == [light], "it has come after all of them"
    run(world, 2)
    assert world.handler(2).claim() == []
    run(world, 0)
    assert world.handler(0).claim() == [tags[2]], "whose seat it was before"
    assert world.audit() == []


def test_a_seat_is_kept_for_a_while_only(world: World) -> None:
    light_has_called(world)
    tags = offer(world, *[HEAVY] * 3)
    for number in range(2):
        assert world.handler(number).claim(1) == [tags[number]]
    assert world.handler(2).claim(1 + KEPT_NS) == []
    assert world.handler(2).claim(2 + KEPT_NS) == [tags[2]]


def test_short_calls_take_every_handler(world: World) -> None:
    light_has_called(world)
    tags = offer(world, *[HEAVY] * 4, cls=SHORT)
    assert [world.handler(n).claim() for n in range(3)] == [[tag] for tag in tags[:3]]


def test_handlers_that_are_not_ready_keep_no_seat(world: World) -> None:
    light_has_called(world)
    for number in (1, 2):
        world.shared.row("handler", number)["status"] = Life.STARTING
    tags = offer(world, *[HEAVY] * 2)
    assert world.handler(0).claim() == [tags[0]], "the only one"
    world.shared.row("handler", 1)["status"] = Life.READY
    assert world.handler(1).claim() == []


def test_two_heavy_callers_share_what_there_is(world: World) -> None:
    light_has_called(world)
    tags = offer(world, HEAVY, HEAVY, THIRD, HEAVY, THIRD)
    claimed = [world.handler(number).claim() for number in range(3)]
    assert claimed == [[tags[0]], [tags[2]], [tags[1]]]


def test_it_is_found_at_other_levels(world: World) -> None:
    light_has_called(world)
    tags = offer(world, *[HEAVY] * 4)
    [light] = offer(world, LIGHT, level=3)
    assert [world.handler(n).claim() for n in range(3)] == [[tags[0]], [tags[1]], [light]]


def test_those_who_were_passed_over_keep_their_turns(make_world: MakeWorld) -> None:
    """In order of arrival the light caller's call stands behind all of the other's."""
    world = seated(make_world(replace(SEATS, in_turn=False), THREE))
    light_has_called(world)
    tags = offer(world, *[HEAVY] * 5)
    [light] = offer(world, LIGHT)
    assert [world.handler(n).claim() for n in range(3)] == [[tags[0]], [tags[1]], [light]]
    order = []
    for number in (0, 1, 0):
        run(world, number)
        order += world.handler(number).claim()
    assert order == tags[2:]
    assert world.audit() == []


def test_one_who_stands_too_far_back_is_not_found(make_world: MakeWorld) -> None:
    many = replace(THREE, slots=128, turns=128, methods=128, small_pages=256)
    policy = replace(SEATS, capacities=(128,) * 4, max_principal=128, in_turn=False)
    world = seated(make_world(policy, many))
    light_has_called(world)
    offer(world, *[HEAVY] * (LOOKED_AT + 3))
    offer(world, LIGHT)
    assert [len(world.handler(number).claim()) for number in range(3)] == [1, 1, 0]


def test_a_brief_call_behind_very_many_long_ones_has_the_seat(make_world: MakeWorld) -> None:
    many = replace(THREE, slots=128, methods=128, small_pages=300)
    policy = replace(SEATS, capacities=(128,) * 4, max_principal=128, in_turn=False)
    world = seated(make_world(policy, many))
    light_has_called(world)
    long = offer(world, *[HEAVY] * (LOOKED_AT + 3))
    brief = offer(world, LIGHT, cls=SHORT)
    assert [world.handler(number).claim() for number in range(3)] == [long[:1], brief, long[1:2]]


def test_several_heavy_callers_leave_one_to_brief_calls(world: World) -> None:
    tags = offer(world, HEAVY, THIRD, 4, HEAVY, THIRD)
    assert [world.handler(number).claim() for number in range(2)] == [[tags[0]], [tags[1]]]
    [brief] = offer(world, LIGHT, cls=SHORT, level=2)
    assert world.handler(2).claim() == [brief], "the others' are long"
    run(world, 2)
    assert world.handler(2).claim(KEPT_NS) == [], "another one may come"
    assert world.handler(2).claim(KEPT_NS + 1) == [tags[2]], "none has come"
