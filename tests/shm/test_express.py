"""Express handlers claim short calls while all others of their group run long ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from faircall.shm.answers import WITHDRAWN
from faircall.shm.draws import RESERVED
from faircall.shm.express import LATELY_NS
from faircall.shm.heaps import W_CHILD
from faircall.shm.layout import GROUP
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import W_TURN
from faircall.shm.states import HELD, LONG, QUEUED, SHORT, Life

from ..fault.world import GROUPED, OTHER_GROUP, POLICY, SMALL, World
from .conftest import MakeWorld

FEW = replace(SMALL, handlers=4, group_express=(2,))
ROOMY = replace(FEW, slots=64, small_pages=160, turns=64)
MANY = replace(POLICY, capacities=(64,) * 4, max_principal=64)
ONE_LEVEL = QueuePolicy(weights=(1,), capacities=(64,), max_principal=64)
ORDINARY, EXPRESS = (0, 1), (2, 3)
OPENS_NS = 1000


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Two ordinary handlers and two express ones, all of which sleep."""
    return asleep(make_world(MANY, ROOMY))


def asleep(world: World) -> World:
    for handler in world.handlers:
        assert handler.claim() == []
    return world


def offer(
    world: World, *callers: int, cls: int = SHORT, level: int = 0, **kind: object
) -> list[int]:
    calls = [world.call(who=who, level=level, cls=cls, **kind) for who in callers]
    assert set(world.reader(0).offer(calls)) == {0}
    return [call.tag for call in calls]


def stage(world: World, cls: int, level: int = 0, who: int = 1) -> tuple[int, int]:
    return world.reader(0).stage(world.call(who=who, level=level, cls=cls)), level


def woken(world: World, *calls: tuple[int, int]) -> int:
    """Who is rung for staged calls: a bitmap."""
    return world.table.enqueue(list(calls), [0] * len(calls))


def occupy(world: World, who: int = 5, level: int = 3) -> list[int]:
    """Each ordinary handler runs a long call."""
    tags = offer(world, *[who] * len(ORDINARY), cls=LONG, level=level)
    assert [world.handler(number).claim() for number in ORDINARY] == [[tag] for tag in tags]
    return tags


def done(world: World, number: int) -> None:
    handler = world.handler(number)
    while handler.claimed:
        handler.run()
    handler.publish()
    world.reader(0).gather()


def served(world: World, number: int = 2, now_ns: int = 0) -> list[int]:
    """All that an express handler claims, one call at a time."""
    tags = []
    while claimed := world.handler(number).claim(now_ns, most=1):
        tags += claimed
        done(world, number)
        assert world.audit() == []
    return tags


# -- what they claim, and when ---------------------------------------------------------------------


def test_short_calls_are_served_while_all_others_run_long_ones(world: World) -> None:
    occupy(world)
    long = offer(world, 1, cls=LONG)
    short = offer(world, 2, 2, 3)
    assert served(world) == [short[0], short[2], short[1]], "in turn, and no long one"
    done(world, 0)
    assert world.handler(0).claim() == long


@pytest.mark.parametrize("free", ORDINARY)
def test_one_ordinary_handler_is_enough_for_them_to_sleep(world: World, free: int) -> None:
    occupy(world)
    short = offer(world, 1)
    done(world, free)
    assert world.handler(free).claim() == short, "a short call: it will be back soon"
    offer(world, 1)
    assert [world.handler(number).claim() for number in EXPRESS] == [[], []]


def test_they_are_rung_for_short_calls_alone(world: World) -> None:
    occupy(world)
    assert woken(world, stage(world, LONG), stage(world, LONG)) == 0
    assert woken(world, stage(world, SHORT)) == 0b0100
    assert woken(world, stage(world, SHORT)) == 0b1000, "the first was rung already"
    assert woken(world, stage(world, SHORT)) == 0


def test_they_are_not_rung_while_an_ordinary_handler_idles(world: World) -> None:
    tags = offer(world, 1, cls=LONG)
    assert world.handler(0).claim() == tags
    assert world.handler(1).claim() == []
    calls = [stage(world, SHORT) for _ in range(3)]
    assert woken(world, *calls) == 0b0010
    assert woken(world, stage(world, SHORT)) == 0, "it was rung, and comes"


def test_who_claims_the_long_call_that_leaves_none_rings_for_short_ones(world: World) -> None:
    world.handler(0).claim()
    tags = offer(world, 1, 1, cls=LONG) + offer(world, 1)
    assert world.handler(0).claim(most=1) == tags[:1]
    assert world.table.claims.wake == 0
    assert world.handler(1).claim(most=1) == tags[1:2]
    assert world.table.claims.wake == 0b0100
    assert served(world) == tags[2:]


def test_handlers_that_are_not_there_do_not_keep_them_asleep(make_world: MakeWorld) -> None:
    world = make_world(MANY, ROOMY)
    world.shared.row("handler", 0)["status"] = Life.STARTING  # its service is being imported
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    tags = offer(world, 1, cls=LONG) + offer(world, 1)
    assert world.handler(1).claim(most=1) == tags[:1]
    assert served(world) == tags[1:]


def test_who_leaves_rings_for_the_short_calls_that_wait(world: World) -> None:
    [long] = offer(world, 1, cls=LONG)
    assert world.handler(1).claim() == [long]
    offer(world, 1)  # handler 0 was rung for it
    assert world.table.leave(0) == 0b0100
    [late] = offer(world, 2)
    assert late in served(world)


def test_an_express_handler_that_leaves_passes_its_ring_on(world: World) -> None:
    occupy(world)
    assert woken(world, stage(world, SHORT)) == 0b0100
    assert world.table.leave(2) == 0b1000


def test_an_ordinary_handler_that_leaves_is_taken_whoever_gets_its_ring(world: World) -> None:
    offer(world, 1)  # handler 0 was rung for it
    assert world.table.leave(0) == 0b0010
    assert world.q[world.table.taken_word] & 0b11 == 0b01


def test_calls_that_come_at_once_are_shared_among_them(world: World) -> None:
    """One is rung, and rings the next for what it does not take."""
    occupy(world)
    calls = [stage(world, SHORT) for _ in range(3)]
    assert woken(world, *calls) == 0b0100
    assert len(world.handler(2).claim(most=1)) == 1
    assert world.table.claims.wake == 0b1000
    assert len(world.handler(3).claim(most=1)) == 1
    assert world.table.claims.wake == 0


def test_they_are_rung_beside_who_waits_for_more_calls_of_its_method(world: World) -> None:
    world.run_together(3, within_ns=1000)
    offer(world, 1, cls=LONG, together=True)
    world.handler(0).claim()
    assert world.table.joint.gathers
    offer(world, 1, cls=LONG)
    assert len(world.handler(1).claim()) == 1
    assert woken(world, stage(world, SHORT)) == 0b0101, "who waits runs what it has, not this one"


def test_they_are_no_handlers_that_idle(world: World) -> None:
    """Who claims may claim several: nobody else would take the others."""
    for number in ORDINARY:
        world.handler(number).claim()
    calls = [stage(world, SHORT) for _ in range(3)]
    assert woken(world, *calls) == 0b11
    assert not world.table.some_handler_idles
    assert world.table.count_idle(0) == 0


# -- in which order --------------------------------------------------------------------------------


def test_levels_have_their_weights_with_a_cursor_of_their_own(world: World) -> None:
    occupy(world)
    cursor = [world.q[world.table.draws.cursor_word], world.q[world.table.draws.credit_word]]
    for level in range(4):
        offer(world, *[1 + n % 4 for n in range(15)], level=level)
    levels = [world.calls[tag].level for tag in served(world)]
    assert levels[:15] == [0] * 8 + [1] * 4 + [2] * 2 + [3]
    assert Counter(levels) == dict.fromkeys(range(4), 15)
    draws = world.table.draws
    assert [world.q[draws.cursor_word], world.q[draws.credit_word]] == cursor


def test_what_they_draw_takes_no_draw_from_ordinary_handlers(make_world: MakeWorld) -> None:
    """Short calls beside: the order of the long ones is that of a server without any."""
    found = []
    for short in (5, 0):
        world = asleep(make_world(MANY, ROOMY))
        occupy(world)
        for level in range(4):
            offer(world, *[1] * 8, cls=LONG, level=level)
            if short:
                offer(world, *[2] * short, level=level)
        levels, beside = [], 0
        for _ in range(20):
            beside += len(served(world))
            done(world, 0)
            levels += [world.calls[tag].level for tag in world.handler(0).claim(most=1)]
        assert beside == 4 * short
        found.append(levels)
    assert found[0] == found[1]
    assert set(found[0]) == set(range(4))


def test_a_newcomer_alternates_with_who_had_many_calls_served(make_world: MakeWorld) -> None:
    """A long call that has waited since before all of them gives him no start."""
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    offer(world, 4, cls=LONG)
    for _ in range(3):
        offer(world, *[1] * 10)
        served(world)
    old, new = offer(world, 1, 1, 1), offer(world, 2, 2, 2)
    assert served(world) == [new[0], old[0], new[1], old[1], new[2], old[2]]


def test_short_calls_that_were_served_do_not_set_a_callers_long_ones_back(
    make_world: MakeWorld,
) -> None:
    """They are in the next round, as after a single one."""
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    heavy = offer(world, *[1] * 6, cls=LONG)
    for _ in range(20):
        offer(world, 2)
        served(world)
    [light] = offer(world, 2, cls=LONG)
    order = []
    for _ in range(3):
        done(world, 0)
        order += world.handler(0).claim(most=1)
    assert order == [heavy[0], heavy[1], light]


def test_who_has_long_calls_waiting_has_no_second_turn_for_short_ones(
    make_world: MakeWorld,
) -> None:
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    mine = offer(world, 1, 1, cls=LONG)
    theirs = offer(world, 2, 2, 2)
    [short] = offer(world, 1)
    assert served(world) == [theirs[0], theirs[1], theirs[2], short]
    done(world, 0)
    assert world.handler(0).claim(most=1) == mine[:1]


def test_ordinary_handlers_go_on_where_express_handlers_stopped(make_world: MakeWorld) -> None:
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    long = offer(world, 3, 3, cls=LONG)
    offer(world, *[1] * 9)
    assert len(served(world)) == 9
    short = offer(world, 1, 2, 1)
    for number in ORDINARY:
        done(world, number)
    order = []
    for _ in range(5):
        order += world.handler(0).claim(most=1)
        done(world, 0)
    assert order == [long[0], short[1], long[1], short[0], short[2]]
    assert world.audit() == []


def test_in_order_of_arrival_they_keep_it(make_world: MakeWorld) -> None:
    world = asleep(make_world(replace(MANY, in_turn=False), ROOMY))
    occupy(world)
    offer(world, 4, cls=LONG)
    tags = offer(world, 1, 1, 2, 1, 2)
    assert served(world) == tags


def test_a_lane_goes_first_within_its_share(make_world: MakeWorld) -> None:
    world = asleep(make_world(replace(ONE_LEVEL, lane_shares=(0, 250)), ROOMY))
    occupy(world, level=0)
    lane = world.shared.geometry.levels + RESERVED
    beats, others = offer(world, 1, 1, 1, level=lane), offer(world, *[2] * 8)
    order = served(world)
    assert order[0] == beats[0], "it waited alone in its lane, and owes a draw now"
    assert [order.index(tag) for tag in beats[1:]] == [4, 8]
    assert set(order) == {*beats, *others}


# -- limits, groups, seats -------------------------------------------------------------------------


def test_limits_hold_for_them_as_for_all(world: World) -> None:
    occupy(world)
    world.close_limiter(0, OPENS_NS)
    offer(world, 1, 1, 1)
    assert len(served(world)) == 3
    held = offer(world, 1, 1, limiters=(0,)) + offer(world, 2, limiters=(0,))
    assert world.handler(2).claim() == []
    assert [
        world.state(slot) for slot, call in world.reader(0).calls.items() if call.tag in held
    ] == [HELD] * 3
    assert world.audit() == []
    assert served(world, now_ns=OPENS_NS) == [held[0], held[2], held[1]]


def test_a_short_call_that_is_held_keeps_its_place_among_long_ones(make_world: MakeWorld) -> None:
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    offer(world, *[1] * 20)
    served(world)
    world.close_limiter(0, OPENS_NS)
    [short] = offer(world, 2, limiters=(0,))
    assert world.handler(2).claim() == []
    done(world, 0)
    offer(world, 3, cls=LONG, limiters=(0,))
    assert world.handler(0).claim() == []
    assert world.reader(0).calls[world.table.held.first(0, 0)].tag == short


def test_an_opening_rings_them_where_nobody_else_idles(world: World) -> None:
    world.close_limiter(0, OPENS_NS)
    short = offer(world, 1, limiters=(0,), level=1)
    assert world.handler(0).claim() == []
    occupy(world)
    done(world, 0)
    long = offer(world, 4, cls=LONG)
    assert world.handler(0).claim(OPENS_NS, most=1) == long
    assert world.table.claims.wake == 0b0100
    assert served(world, now_ns=OPENS_NS) == short


def test_each_group_has_its_own(make_world: MakeWorld) -> None:
    geometry = replace(GROUPED, handlers=6, group_handlers=(3, 3), group_express=(1, 1))
    world = asleep(make_world(POLICY, replace(geometry, slots=32, small_pages=96)))
    long = offer(world, 1, 1, cls=LONG, level=OTHER_GROUP)
    assert [world.handler(number).claim() for number in (3, 4)] == [[tag] for tag in long]
    assert woken(world, stage(world, SHORT), stage(world, SHORT, OTHER_GROUP)) == 0b10_0001
    assert world.handler(2).claim() == []
    assert len(world.handler(5).claim()) == 1


def test_who_is_served_by_them_has_a_seat_for_more(make_world: MakeWorld) -> None:
    """Another caller's long calls do not take the last seat; but short calls keep none."""
    world = asleep(make_world(replace(MANY, long_ns=1), ROOMY))
    record = world.table.segment.layout.groups
    served_word, brief_word = (
        world.table.segment.word(record, GROUP, field) for field in ("served", "brief_ns")
    )
    occupy(world)
    brief = world.q[brief_word]
    offer(world, 2)
    assert len(served(world, now_ns=7)) == 1
    assert (world.q[served_word], world.q[brief_word]) == (2 + 1, brief)


# -- after a death ---------------------------------------------------------------------------------


def test_a_call_goes_back_to_its_place_when_they_die(world: World) -> None:
    occupy(world)
    tags = offer(world, 1, 2, 1, 2, expected_ns=1)
    assert world.handler(2).claim(most=2) == tags[:2]
    world.bury_handler(2)
    assert world.audit() == []
    assert served(world, 3) == tags


def test_a_rebuild_knows_who_runs_a_long_call(world: World) -> None:
    occupy(world)
    tags = offer(world, 1)
    taken = world.q[world.table.taken_word]
    world.q[world.table.taken_word] = 0
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert world.q[world.table.taken_word] & 0b11 == taken & 0b11 == 0b11
    assert served(world) == tags
    done(world, 1)
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert world.q[world.table.taken_word] & 0b11 == 0b01


def test_after_a_rebuild_who_runs_a_call_is_rung_for_none(world: World) -> None:
    tags = offer(world, 5, cls=LONG)
    assert world.handler(0).claim() == tags
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert woken(world, stage(world, LONG)) == 0b0010
    assert len(world.handler(1).claim()) == 1
    assert woken(world, stage(world, SHORT)) & 0b1111 == 0b0100


def test_a_dead_ordinary_handler_is_taken(world: World) -> None:
    [long] = offer(world, 1, cls=LONG)
    assert world.handler(1).claim() == [long]
    short = offer(world, 1)
    assert world.handler(2).claim() == [], "handler 0 comes for it"
    world.bury_handler(0)
    assert served(world) == short


def test_turns_outlive_a_rebuild_while_short_calls_are_ahead(make_world: MakeWorld) -> None:
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    long = offer(world, 3, 3, cls=LONG)
    offer(world, *[1] * 20)
    served(world)
    tags = offer(world, 1, 1, 2, 2)
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert world.audit() == []
    assert served(world) == [tags[2], tags[0], tags[3], tags[1]]
    done(world, 0)
    assert world.handler(0).claim(most=1) == long[:1]


def test_a_held_call_whose_release_was_cut_short_is_not_set_back(make_world: MakeWorld) -> None:
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    offer(world, 3, cls=LONG)
    offer(world, *[1] * 20)
    served(world)
    world.close_limiter(0, OPENS_NS)
    [held] = offer(world, 2, limiters=(0,))
    assert world.handler(2).claim() == []
    slot = next(slot for slot, call in world.reader(0).calls.items() if call.tag == held)
    turn = world.table.words[slot, W_TURN]
    world.table.words[slot, W_CHILD] = turn
    world.table.words[slot, W_TURN] += world.table.rings.lead_of(0, SHORT)  # and died there
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert world.table.words[slot, W_TURN] == turn
    assert world.audit() == []


def test_held_calls_keep_their_turns_at_every_rebuild(make_world: MakeWorld) -> None:
    """Also those that come long after the level's: later than what short calls are ahead."""
    world = asleep(make_world(ONE_LEVEL, ROOMY))
    occupy(world, level=0)
    offer(world, 3, cls=LONG)
    offer(world, *[1] * 5)
    served(world)
    world.close_limiter(0, OPENS_NS)
    offer(world, *[2] * 20, limiters=(0,))
    assert world.handler(2).claim() == []
    slots = world.table.recovery.slots_in(HELD)
    turns = world.table.words[slots, W_TURN].tolist()
    assert max(turns) - min(turns) > world.table.rings.lead_of(0, SHORT) > 0
    for _ in range(2):
        with world.table.queue_lock:
            world.table.recovery.rebuild_queue()
        assert world.table.words[slots, W_TURN].tolist() == turns
    assert world.audit() == []


def test_fewer_levels_take_short_calls_along(world: World) -> None:
    occupy(world)
    offer(world, *[1] * 10, level=2)
    offer(world, 3, cls=LONG, level=2)
    served(world)
    tags = offer(world, 1, 2, 1, level=2) + offer(world, 1, 2, level=3)
    world.table.set_policy(replace(MANY, weights=(2, 1), capacities=(64, 64)))
    assert world.audit() == []
    assert sorted(served(world)) == sorted(tags)


def test_short_calls_can_be_withdrawn(world: World) -> None:
    occupy(world)
    offer(world, 3, cls=LONG)
    offer(world, *[1] * 5)
    served(world)
    reader = world.reader(0)
    tags = offer(world, 1, 2)
    slots = [slot for slot, call in reader.calls.items() if call.tag in tags]
    assert {world.state(slot) for slot in slots} == {QUEUED}
    assert reader.withdraw(slots) == [WITHDRAWN] * 2
    assert world.audit() == []
    assert served(world) == []


def test_readers_know_that_they_are_at_work(world: World) -> None:
    assert not world.table.express_are_busy(1)
    occupy(world)
    assert not world.table.express_are_busy(1), "nothing short has come"
    offer(world, 1)
    assert len(served(world, now_ns=5)) == 1
    assert world.table.express_are_busy(LATELY_NS)
    assert not world.table.express_are_busy(LATELY_NS + 5)
    done(world, 0)
    world.handler(0).claim()
    assert not world.table.express_are_busy(LATELY_NS)
