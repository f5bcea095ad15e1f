"""Calls wait in turns: identities in turn, first in first out within one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from faircall.shm import states
from faircall.shm.layout import CLASSES
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import MOST_BACK, SLOT_WORDS, W_NEXT, W_PREV, follow

from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

ARRIVAL_ORDER = replace(POLICY, in_turn=False)
WIDE = replace(SMALL, slots=32)
ROOMY = QueuePolicy(capacities=(64,) * 4, max_principal=64)
SHORT, LONG = states.SHORT, states.LONG


def offer(world: World, *who: int, level: int = 0, reader: int = 0, cls: int = LONG) -> list[int]:
    """One call of each of `who`, in this order; their tags."""
    calls = [world.call(who=row, level=level, cls=cls) for row in who]
    assert set(world.reader(reader).offer(calls)) == {0}
    return [call.tag for call in calls]


def drawn(world: World) -> Iterator[int]:
    """Runs what waits, one call at a time: who called."""
    while tags := world.handler(1).work():
        for reader in world.readers:
            reader.gather()
        assert world.audit() == []
        yield from (world.calls[tag].who for tag in tags)


def test_identities_are_served_in_turn(world: World) -> None:
    offer(world, 1, 1, 1, 2, 3, 2)
    assert list(drawn(world)) == [1, 2, 3, 1, 2, 1]


def test_one_identity_is_served_first_in_first_out(world: World) -> None:
    tags = offer(world, 1, 1, 1, 1)
    list(drawn(world))
    assert world.ledger.run_order(0) == tags


def test_out_of_turn_the_order_is_that_of_arrival(make_world: MakeWorld) -> None:
    world = make_world(ARRIVAL_ORDER)
    offer(world, 1, 1, 1, 2, 3, 2)
    assert list(drawn(world)) == [1, 1, 1, 2, 3, 2]


def test_who_comes_later_is_served_in_the_running_turn(world: World) -> None:
    offer(world, 1, 1, 1, 1)
    world.handler(1).work()
    offer(world, 2, reader=1)
    assert list(drawn(world)) == [2, 1, 1, 1]


def test_who_was_away_gains_nothing_by_it(world: World) -> None:
    """Turns that an identity did not use are lost: it gets the running one."""
    for _ in range(10):
        offer(world, 1)
        list(drawn(world))
    offer(world, 1, 1)
    offer(world, 2, 2, 2, reader=1)
    assert list(drawn(world)) == [2, 1, 2, 1, 2]


def test_levels_have_turns_of_their_own(world: World) -> None:
    offer(world, 1, 1, 1)
    offer(world, 1, 2, level=1, reader=1)
    assert world.ledger.run_order(1) == []
    list(drawn(world))
    assert [world.calls[tag].who for tag in world.ledger.run_order(1)] == [1, 2]


def test_both_classes_are_one_queue(world: World) -> None:
    """An ordinary handler takes the smaller (turn, seq) of both rings."""
    tags = [offer(world, who, cls=cls)[0] for who, cls in ((1, LONG), (1, SHORT), (2, SHORT))]
    tags += [offer(world, who, cls=cls)[0] for who, cls in ((2, LONG), (3, LONG), (3, SHORT))]
    list(drawn(world))
    first, last = [tags[0], tags[2], tags[4]], [tags[1], tags[3], tags[5]]
    assert world.ledger.run_order(0) == first + last


def test_the_bitmap_wraps_around(world: World) -> None:
    """Many more turns than the ring has places, with a few always waiting."""
    offer(world, 1, 1, 2)
    for number in range(5 * SMALL.turns):
        tags = world.handler(1).work()
        assert len(tags) == 1
        for reader in world.readers:
            reader.gather()
        world.reader(0).offer([replace(world.calls[1], who=1 + number % 3)])
        assert world.audit() == []
    turn = world.q[world.table.rings.turn_word]
    assert turn > SMALL.turns


def test_turns_further_ahead_than_the_ring_is_long_share_its_last_place(
    make_world: MakeWorld,
) -> None:
    narrow = make_world(ROOMY, replace(WIDE, turns=8))
    tags = offer(narrow, *[1] * 20)
    offer(narrow, 2, reader=1)
    assert narrow.audit() == []
    who = list(drawn(narrow))
    assert who.index(2) == 1
    assert [tag for tag in narrow.ledger.run_order(0) if tag in tags] == tags


@pytest.mark.parametrize("policy", [POLICY, ARRIVAL_ORDER], ids=["in turn", "in arrival order"])
@pytest.mark.parametrize("place", range(5))
def test_any_call_can_be_taken_out(make_world: MakeWorld, policy: QueuePolicy, place: int) -> None:
    world = make_world(policy)
    tags = offer(world, 1, 2, 1, 3, 1)
    slot = next(s for s, call in world.reader(0).calls.items() if call.tag == tags[place])
    world.reader(0).withdraw([slot])
    assert world.audit() == []
    list(drawn(world))
    assert sorted(world.ledger.run_order(0)) == [tag for tag in tags if tag != tags[place]]


def test_a_level_that_empties_and_fills_again_is_sound(world: World) -> None:
    for _ in range(3):
        offer(world, 1, 2, 1)
        world.reader(0).withdraw(list(world.reader(0).calls))
        assert world.audit() == []
    assert world.handler(1).claim() == []


def chains(world: World) -> list[list[int]]:
    """Every place's chain, in order."""
    table = world.table
    return [
        table.rings.chain(level, cls, place)
        for level in range(SMALL.levels)
        for cls in range(CLASSES)
        for place in range(table.rings.turns)
    ]


@pytest.mark.parametrize("seed", range(10))
def test_rebuilding_changes_nothing_of_a_sound_index(make_world: MakeWorld, seed: int) -> None:
    world = make_world(ROOMY, WIDE)
    draw = random.Random(seed)
    for _ in range(60):
        if draw.random() < 0.6 and world.reader(0).free:
            level, cls = draw.randrange(4), draw.randrange(2)
            offer(world, draw.randint(1, 5), level=level, cls=cls)
        else:
            world.handler(0).work()
            world.reader(0).gather()
        if draw.random() < 0.1 and world.reader(0).calls:
            world.reader(0).withdraw([draw.choice(list(world.reader(0).calls))])
    before = chains(world)
    turns = list(world.table.words[:, 2])
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert chains(world) == before
    assert list(world.table.words[:, 2]) == turns
    assert world.audit() == []


def test_claimed_calls_that_never_began_go_back_to_their_old_place(world: World) -> None:
    """Also into turns that their level has left: 1, 2, 1, not 1, 1, 2."""
    tags = offer(world, 1, 1, 2, 1, 3)
    for _ in range(4):
        world.handler(0).claim()
    world.bury_handler(0)
    list(drawn(world))
    assert world.ledger.run_order(0) == [tags[0], tags[2], tags[4], tags[1], tags[3]]


def test_a_call_that_returns_from_long_ago_is_first_and_opens_no_old_turns(
    make_world: MakeWorld,
) -> None:
    """Newcomers would else have all the turns since then for themselves."""
    world = make_world(POLICY, replace(SMALL, turns=512))
    old = offer(world, 5)
    world.handler(0).claim()
    turn = world.table.rings.turn_word
    for _ in range(3 * MOST_BACK):
        offer(world, 1, reader=1)
        world.handler(1).work()
        world.reader(1).gather()
    before = world.q[turn]
    assert before > 2 * MOST_BACK
    offer(world, 1, 1, reader=1)
    world.bury_handler(0)
    assert world.q[turn] == before - MOST_BACK
    assert world.audit() == []
    assert world.handler(1).work() == old


def test_a_broken_chain_is_not_followed(world: World) -> None:
    offer(world, 1, 1, 1)
    rings, q = world.table.rings, world.q
    slots = [chain[0] for chain in chains(world) if chain]
    assert len(slots) == 3
    own = world.table.slot0 + slots[0] * SLOT_WORDS
    q[own + W_NEXT] = slots[0] + 1
    with pytest.raises(ValueError, match="chain is broken"):
        rings.chain(0, LONG, rings.places(0, LONG)[0])
    q[own + W_NEXT] = 0
    q[own + W_PREV] = 3
    with pytest.raises(ValueError, match="chain is broken"):
        rings.chain(0, LONG, rings.places(0, LONG)[0])


def test_a_chain_that_ends_too_early_is_noticed(make_world: MakeWorld) -> None:
    world = make_world(ARRIVAL_ORDER)
    offer(world, 1, 1)
    first = world.table.rings.chain(0, LONG, 1)[0]
    world.q[world.table.slot0 + first * SLOT_WORDS + W_NEXT] = 0
    with pytest.raises(ValueError, match="the chain ends at slot"):
        world.table.rings.chain(0, LONG, 1)


def test_a_loop_is_noticed() -> None:
    """Two slots that name each other, consistently."""
    words = np.zeros((3, SLOT_WORDS), dtype=np.uint64)
    words[0, :2] = 1, 2
    words[1, W_NEXT] = words[2, W_PREV] = 2
    words[2, W_NEXT] = words[1, W_PREV] = 1
    words[1, W_PREV] = 0
    with pytest.raises(ValueError, match="chain is broken"):
        follow(words.reshape(-1).data, SLOT_WORDS, 0)


def test_waiting_calls_keep_their_turns_when_the_policy_changes(make_world: MakeWorld) -> None:
    """From in turn to the order of arrival: later calls do not overtake."""
    world = make_world(POLICY)
    one, two, three, other = offer(world, 1, 1, 1, 2)
    world.table.set_policy(ARRIVAL_ORDER)
    assert world.audit() == []
    later = offer(world, 3, 3, reader=1)
    list(drawn(world))
    assert world.ledger.run_order(0) == [one, other, two, three, *later]


def test_calls_of_a_level_that_goes_take_turns_on_the_lowest(make_world: MakeWorld) -> None:
    """They come behind those of their callers that wait there, and later ones behind them."""
    world = make_world(ROOMY, WIDE)
    for _ in range(20):  # the levels' turns are far apart
        offer(world, 1, level=3)
        list(drawn(world))
    calls = [(1, 3), (1, 3), (2, 3), (3, 1), (3, 1)]
    tags = [offer(world, who, level=level)[0] for who, level in calls]
    two = replace(ROOMY, weights=(2, 1), capacities=(64, 64))
    world.table.set_policy(two)
    assert world.audit() == []
    tags += offer(world, 1, 4, level=1, reader=1)
    served = list(drawn(world))
    assert sorted(served[:4]) == [1, 2, 3, 4]
    ones = [tag for tag in world.ledger.run_order(1) if world.calls[tag].who == 1]
    assert ones == [tags[0], tags[1], tags[5]]


@pytest.mark.parametrize("seed", range(5))
def test_a_place_in_a_chain_is_found_from_any_slot_of_it(make_world: MakeWorld, seed: int) -> None:
    chance, world = random.Random(seed), make_world(replace(ROOMY, in_turn=False), WIDE)
    table, rings = world.table, world.table.rings
    offer(world, *[1] * 20)
    turn, waiting = world.q[table.arrival_turn_word], rings.chain(0, LONG, 1)
    for _ in range(20):
        moved, near = chance.sample(waiting, 2)
        with table.queue_lock:
            rings.unlink(0, LONG, moved)
            rings.insert(0, LONG, turn, moved, chance.choice((near, -1)))
        assert rings.chain(0, LONG, 1) == waiting
        assert world.audit() == []
