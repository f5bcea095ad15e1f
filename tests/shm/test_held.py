"""Calls that wait for a limiter to open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faircall.shm.answers import WITHDRAWN
from faircall.shm.held import MOST_NS, REBUILT
from faircall.shm.limiter_counters import L_HELD_NS
from faircall.shm.offers import LEVEL_FULL, PRINCIPAL_FULL
from faircall.shm.rings import TurnRings
from faircall.shm.states import FREE, HELD, QUEUED

from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

OPENS_NS = 1000


def offer(world: World, *limiters: tuple[int, ...], who: int = 1, level: int = 0) -> list[int]:
    """One call for each tuple of limiter rows; their tags."""
    calls = [world.call(who=who, level=level, limiters=rows) for rows in limiters]
    assert set(world.reader(0).offer(calls)) == {0}
    return [call.tag for call in calls]


def states_of(world: World) -> list[int]:
    return [world.state(slot) for slot in world.reader(0).calls]


def work(world: World, now_ns: int) -> list[int]:
    """Everything that may run now, one claim after the other."""
    tags = []
    while ran := world.handler(1).work(now_ns):
        tags += ran
        assert world.audit() == []
    return tags


def test_a_closed_limiter_holds_its_calls_and_lets_others_pass(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    held = offer(world, (0,), (0,))
    free = offer(world, (), (1,), who=2)
    assert work(world, OPENS_NS - 1) == free
    assert states_of(world)[:2] == [HELD, HELD]
    assert work(world, OPENS_NS) == held


def test_held_calls_keep_their_order(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    tags = offer(world, (0,), (0,)) + offer(world, (0,), who=2) + offer(world, (0,), who=1)
    assert work(world, 0) == []
    assert work(world, OPENS_NS) == [tags[0], tags[2], tags[1], tags[3]]


def test_opened_calls_are_in_turn_with_everybody_else(world: World) -> None:
    """A burst that was held is no queue of its own, ahead of all others."""
    world.close_limiter(0, OPENS_NS)
    burst = offer(world, (0,), (0,), (0,), (0,))
    assert work(world, 0) == []
    for _ in range(5):  # the level's turn goes on without them
        offer(world, (), who=2)
        assert len(work(world, 0)) == 1
        world.reader(0).gather()
    others = offer(world, (), (), who=3)
    assert work(world, OPENS_NS) == [burst[0], others[0], burst[1], others[1], *burst[2:]]
    world.reader(0).gather()
    late = offer(world, (), who=1) + offer(world, (), who=3)
    assert work(world, OPENS_NS) == late[::-1], "who had many turns just now is not first again"


def test_a_held_call_goes_before_those_that_came_after_it(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    held = offer(world, (0,), who=1)
    assert work(world, 0) == []
    later = offer(world, (), (), who=2)
    assert work(world, OPENS_NS)[0] == held[0]
    assert world.ledger.run_order(0)[1:] == later


def test_out_of_turn_an_opened_call_is_where_it_arrived(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, in_turn=False))
    world.close_limiter(0, OPENS_NS)
    first = offer(world, (), (0,), (0,))
    assert world.handler(1).claim(0) == first[:1]
    assert work(world, 0) == []
    later = offer(world, (), (), who=2)
    assert work(world, OPENS_NS) == first[1:] + later


def test_a_call_is_held_by_the_limiter_that_opens_last(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    world.close_limiter(1, 2 * OPENS_NS)
    tags = offer(world, (0, 1))
    assert work(world, 0) == []
    assert world.table.held.chain(1) == list(world.reader(0).calls)
    assert work(world, 2 * OPENS_NS - 1) == []
    assert work(world, 2 * OPENS_NS) == tags


def test_a_limiter_that_closes_again_holds_again(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    tags = offer(world, (0,))
    assert work(world, 0) == []
    world.close_limiter(0, 3 * OPENS_NS)
    assert work(world, 2 * OPENS_NS) == []
    assert world.q[world.table.held.next_open_word] == 3 * OPENS_NS
    assert work(world, 3 * OPENS_NS) == tags


def test_the_earliest_opening_is_known(world: World) -> None:
    assert world.q[world.table.held.next_open_word] == 0
    world.close_limiter(0, 2 * OPENS_NS)
    world.close_limiter(1, OPENS_NS)
    offer(world, (0,), (1,))
    assert work(world, 0) == []
    assert world.q[world.table.held.next_open_word] == OPENS_NS
    work(world, OPENS_NS)
    assert world.q[world.table.held.next_open_word] == 2 * OPENS_NS
    work(world, 2 * OPENS_NS)
    assert world.q[world.table.held.next_open_word] == 0


def test_held_calls_count_towards_the_levels_capacity(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, capacities=(2, 1, 1, 1)))
    world.close_limiter(0, OPENS_NS)
    offer(world, (0,), level=3)
    assert work(world, 0) == []
    assert world.reader(0).offer([world.call(level=3)]) == [LEVEL_FULL]
    world.reader(0).withdraw(list(world.reader(0).calls))
    assert world.reader(0).offer([world.call(level=3)]) == [0]


def test_held_calls_count_towards_their_principal(make_world: MakeWorld) -> None:
    world = make_world(replace(POLICY, max_principal=2))
    world.close_limiter(0, OPENS_NS)
    offer(world, (0,), (0,))
    assert work(world, 0) == []
    assert world.reader(0).offer([world.call(who=1)]) == [PRINCIPAL_FULL]
    assert world.reader(0).offer([world.call(who=2)]) == [0]


@pytest.mark.parametrize("place", range(3))
def test_a_held_call_can_be_withdrawn(world: World, place: int) -> None:
    world.close_limiter(0, OPENS_NS)
    tags = offer(world, (0,), (0,), (0,))
    assert work(world, 0) == []
    slot = list(world.reader(0).calls)[place]
    assert world.reader(0).withdraw([slot]) == [WITHDRAWN]
    assert world.state(slot) == FREE
    assert world.audit() == []
    del tags[place]
    assert work(world, OPENS_NS) == tags


def test_what_a_limiter_holds_up_costs_its_level_no_draw(world: World) -> None:
    """The draws that are made are still 8 to 4, however many calls were held on the way."""
    world.close_limiter(0, OPENS_NS)
    offer(world, (0,), (0,), (0,), (0,), (0,))
    levels = []
    for _ in range(12):
        for level in (0, 1):
            if not [call for call in world.reader(1).calls.values() if call.level == level]:
                world.reader(1).offer([world.call(who=2, level=level)])
        levels += [world.calls[tag].level for tag in world.handler(1).work(0)]
        world.reader(1).gather()
    assert levels == [0] * 8 + [1] * 4


def test_a_rebuild_keeps_who_is_held_by_whom(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    world.close_limiter(1, 2 * OPENS_NS)
    offer(world, (0,), (1,), (0,), (0, 1))
    assert work(world, 0) == []
    before = [world.table.held.chain(row) for row in (0, 1)]
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert [world.table.held.chain(row) for row in (0, 1)] == before
    assert world.q[world.table.held.next_open_word] == REBUILT
    assert work(world, REBUILT) == []
    assert world.q[world.table.held.next_open_word] == OPENS_NS
    assert world.audit() == []


def test_an_open_limiter_is_no_obstacle(world: World) -> None:
    tags = offer(world, (0, 1), (1,))
    assert states_of(world) == [QUEUED, QUEUED]
    assert sorted(work(world, 0)) == tags


def test_the_last_of_eight_limiters_holds_as_well(make_world: MakeWorld) -> None:
    world = make_world(POLICY, replace(SMALL, limiters=8))
    world.close_limiter(7, OPENS_NS)
    tags = offer(world, tuple(range(8)))
    assert work(world, OPENS_NS - 1) == []
    assert work(world, OPENS_NS) == tags


def test_what_calls_have_waited_together_stays_at_its_most(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    tags = offer(world, (0,))
    assert work(world, 0) == []
    world.q[world.table.limiters.at(0) + L_HELD_NS] = MOST_NS - 1
    assert work(world, OPENS_NS) == tags
    assert world.q[world.table.limiters.at(0) + L_HELD_NS] == MOST_NS


def test_at_an_opening_each_place_is_looked_for_from_the_last_one(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the head on, thousands that are let go together would take seconds."""
    world, near = make_world(replace(POLICY, in_turn=False)), []

    def insert(*args: int) -> None:
        near.append(args[4])
        TurnRings.insert(world.table.rings, *args)

    monkeypatch.setattr(world.table.rings, "insert", insert)
    world.close_limiter(0, OPENS_NS)
    held = offer(world, (0,), (0,), (0,), (0,))
    assert work(world, 0) == []
    slots = list(world.reader(0).calls)
    assert work(world, OPENS_NS) == held
    assert near == [-1, *slots[:-1]]
