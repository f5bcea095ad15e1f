"""How many calls limiters may hold, and how many one section of a claim looks at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from faircall.shm.claims import HOLD_AT_ONCE
from faircall.shm.limiter_counters import L_EVENTS
from faircall.shm.offers import TOO_MANY_HELD
from faircall.shm.slot_limiters import follow
from faircall.shm.states import HELD, Status
from faircall.shm.terms import REFUSED

from ..fault.world import POLICY, SMALL, World
from .conftest import MakeWorld

S = 1_000_000_000
OPENS_NS = 1000
ROOM = 32  # calls that may be held at a level
SHARED = replace(POLICY, capacities=(64,) * 4, max_principal=400, held_share=1000 * ROOM // 64)
WIDE = replace(SMALL, slots=512, turns=512, small_pages=1100)


@pytest.fixture
def shared(make_world: MakeWorld) -> World:
    return make_world(SHARED, WIDE)


@pytest.fixture
def roomy(make_world: MakeWorld) -> World:
    """One where everything may be held."""
    return make_world(replace(POLICY, capacities=(512,) * 4, max_principal=512), WIDE)


def offer(world: World, count: int, who: int = 1, level: int = 0, row: int = 0) -> list[int]:
    """Limited calls; their verdicts."""
    calls = [world.call(who=who, level=level, limiters=(row,)) for _ in range(count)]
    return world.reader(0).offer(calls)


def held(world: World) -> int:
    return len(world.table.recovery.slots_in(HELD))


def refused(world: World) -> int:
    return world.q[world.table.limiters.at(0) + L_EVENTS + REFUSED]


def test_one_caller_has_half_of_what_may_be_held(shared: World) -> None:
    shared.close_limiter(0, OPENS_NS)
    assert offer(shared, 1) == [0]
    assert shared.handler(0).claim() == []
    assert offer(shared, ROOM).count(TOO_MANY_HELD) == ROOM - (ROOM // 2 - 1)
    assert (held(shared), refused(shared)) == (ROOM // 2, ROOM // 2 + 1)
    assert shared.audit() == []


def test_each_of_many_leaves_as_much_for_others(shared: World) -> None:
    shared.close_limiter(0, OPENS_NS)
    for who in itertools.islice(itertools.cycle((1, 2, 3)), 60):
        offer(shared, 1, who=who)
        shared.handler(0).work()
    assert held(shared) == 3 * (ROOM // 4)
    assert offer(shared, 1, who=4) == [0], "a light caller of the same key"
    plain = [shared.call(who=5) for _ in range(64 - held(shared))]
    assert set(shared.reader(1).offer(plain)) == {0}, "the rest of the level is for other calls"
    assert len(shared.handler(1).work()) > 0


def test_what_a_claim_has_no_room_to_hold_is_answered(shared: World) -> None:
    """They came before the limiter held any."""
    shared.close_limiter(0, OPENS_NS)
    assert set(offer(shared, 60)) == {0}
    while shared.handler(0).work() or shared.table.turned_away:
        pass
    while shared.table.recovery.count_states().get("QUEUED"):
        shared.handler(0).work()
    assert held(shared) == ROOM // 2
    gathered = shared.reader(0).gather()
    assert {int(shared.ledger.status[tag]) for tag in gathered} == {Status.THROTTLED}
    assert len(gathered) == 60 - ROOM // 2 == refused(shared)
    shared.finish()
    shared.verify()
    assert sum(shared.ledger.status == Status.RESULT) == ROOM // 2


def test_calls_that_were_let_go_keep_their_place_among_those_held(shared: World) -> None:
    """Whoever comes meanwhile takes none, and what finds no room after all is held again."""
    shared.limit(0, 2, S)
    for _ in range(20):
        offer(shared, 4)
        for _ in range(6):
            shared.handler(1).work(0)
    before = held(shared)
    for period in range(1, 6):
        shared.handler(1).claim(period * S, most=1)
        offer(shared, ROOM)
        assert shared.table.held.at_level(0) <= before
        while shared.handler(1).work(period * S):
            pass
        assert held(shared) <= before
        shared.reader(0).gather()
        assert shared.audit() == []


def test_a_lane_has_its_share_as_well(make_world: MakeWorld) -> None:
    world = make_world(replace(SHARED, lane_shares=(0, 500)), WIDE)
    world.close_limiter(0, OPENS_NS)
    lane = SMALL.levels + 1
    assert offer(world, 1, level=lane) == [0]
    assert world.handler(0).claim() == []
    for _ in range(ROOM):
        offer(world, 1, level=lane)
    assert 0 < held(world) <= ROOM // 2


@contextmanager
def sections(world: World) -> Iterator[list[int]]:
    """How many calls became HELD, or were no more, in each section of the queue lock."""
    lock, found, held_word = world.table.claims.queue_lock, [0], world.table.held.held_word

    def enter(*_: object) -> None:
        lock.__enter__()
        found.append(world.q[held_word])

    def leave(*_: object) -> None:
        found[-1] = abs(world.q[held_word] - found[-1])
        lock.__exit__(None, None, None)

    class Counting:
        __enter__, __exit__ = staticmethod(enter), staticmethod(leave)

    world.table.claims.queue_lock = Counting()  # type: ignore[assignment]
    try:
        yield found
    finally:
        world.table.claims.queue_lock = lock


def test_a_section_holds_and_lets_go_so_many_calls_at_most(roomy: World) -> None:
    roomy.close_limiter(0, OPENS_NS)
    offer(roomy, 200)
    with sections(roomy) as found:
        assert roomy.handler(0).claim() == []
    assert sum(found) == held(roomy) == 200
    assert max(found) == HOLD_AT_ONCE
    with sections(roomy) as found:
        assert len(roomy.handler(0).claim(OPENS_NS, most=1)) == 1
    assert (sum(found), held(roomy)) == (200, 0)
    assert max(found) == HOLD_AT_ONCE
    assert roomy.audit() == []
    roomy.finish()
    roomy.reader(0).gather(512)
    assert roomy.ledger.run_order(0) == sorted(roomy.calls), "in their order"


def batch(world: World, count: int, who: int = 1) -> None:
    """One whose head pays for all, under limiter 0."""
    reader = world.reader(0)
    slots = [reader.stage(world.call(who=who, limiters=(0,))) for _ in range(count)]
    for one, following in itertools.pairwise(slots):
        follow(world.q, reader.own(one), reader.own(following), following)
    assert set(reader.enqueue(slots)) == {0}


def test_a_paid_batch_is_let_go_by_parts(roomy: World) -> None:
    roomy.limit(0, 1, S)
    offer(roomy, 1)
    assert len(roomy.handler(0).work(0)) == 1
    batch(roomy, 150)
    assert roomy.handler(0).work(0) == []
    assert held(roomy) == 150
    with sections(roomy) as found:
        assert len(roomy.handler(0).claim(S, most=1)) == 1
    assert max(found) <= HOLD_AT_ONCE + 1
    assert held(roomy) == 0
    assert roomy.audit() == []


@pytest.mark.parametrize("in_turn", [True, False])
def test_what_a_batch_has_paid_for_waits_for_no_further_period(
    make_world: MakeWorld, in_turn: bool
) -> None:
    """Only for a place to run: two batches of four, of which one call at a time may run."""
    world = make_world(replace(POLICY, in_turn=in_turn, capacities=(64,) * 4), WIDE)
    world.limit(0, 2, S, running=1)
    offer(world, 1, who=3)
    batch(world, 4, who=1)
    batch(world, 4, who=2)
    ran = []
    for period in range(4):
        count = 0
        while tags := world.handler(1).work(period * S):
            count += len(tags)
            assert world.audit() == []
            with world.table.queue_lock:
                world.table.recovery.rebuild_queue()
            assert world.audit() == []
        ran.append(count)
    assert ran == [5, 4, 0, 0]


def test_a_death_is_followed_by_one_rebuild_for_all_that_return(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    world.reader(0).offer([world.call(expected_ns=1000) for _ in range(4)])
    world.q[world.table.idle_word] = 0
    assert len(world.handler(0).claim(most=4)) == 4
    recovery, rebuilds = world.table.recovery, SimpleNamespace(count=0)
    rebuild = recovery.rebuild_queue

    def counted() -> None:
        rebuilds.count += 1
        rebuild()

    monkeypatch.setattr(recovery, "rebuild_queue", counted)
    world.dead_handlers.add(0)
    assert len(recovery.reap_handler(0)["requeued"]) == 4
    assert rebuilds.count == 2, "one with the calls, one at the end"
    world.handler(0).begin()
    world.finish()
    world.verify()
