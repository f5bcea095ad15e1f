"""Charging by memory is charging: whatever a look would find is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faircall.shm.layout import SLOT, word_of
from faircall.shm.limiter_counters import L_OPENS, L_USED
from faircall.shm.plain_charges import PlainCharges
from faircall.shm.slot_limiters import W_LIMITERS, look_closer
from faircall.shm.terms import PACED, Kind, Terms, key_of

from ..fault.world import SMALL, World
from .conftest import MakeWorld

S = 1_000_000_000


class Claimant:
    """A process that charges calls, one at a time, and what it remembers."""

    def __init__(self, world: World) -> None:
        table = world.table
        self._world, self._lock = world, table.queue_lock
        self.memory = PlainCharges(world.shared.segment, table.limiters, table.budgets.rows_of)

    def charges(self, own: int, now_ns: int = 0) -> bool:
        with self._lock:
            now_ns = self.memory.begin(now_ns)
            return self.memory.charge(own, self._world.q[own + W_LIMITERS], now_ns)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """One with five limiters."""
    return make_world(geometry=replace(SMALL, limiters=5))


@pytest.fixture
def one(world: World) -> Claimant:
    return Claimant(world)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The limiters that were looked at, as often as they were."""
    found: list[int] = []
    look = PlainCharges._charge_row

    def charge_row(self: PlainCharges, at: int, now_ns: int) -> tuple[int, int]:
        found.append(at)
        return look(self, at, now_ns)

    monkeypatch.setattr(PlainCharges, "_charge_row", charge_row)
    return found


def staged(world: World, *limiters: int) -> int:
    """Where the words of a call begin that names these limiters."""
    reader = world.reader(0)
    return reader.own(reader.stage(world.call(limiters=limiters)))


def used(world: World, row: int) -> tuple[int, int]:
    """(period, calls) of a limiter."""
    word = world.q[world.table.limiters.at(row) + L_USED]
    return word >> 32, word & 0xFFFF_FFFF


def test_only_the_first_call_is_looked_at(world: World, one: Claimant, looks: list[int]) -> None:
    for row in range(2):
        world.limit(row, 100, S)
    own = staged(world, 0, 1)
    assert [one.charges(own) for _ in range(5)] == [True] * 5
    assert (used(world, 0), used(world, 1), len(looks)) == ((0, 5), (0, 5), 2)


def test_the_last_of_a_period_shuts_it_and_the_next_period_opens_it(
    world: World, one: Claimant
) -> None:
    world.limit(0, 3, S)
    own, opens = staged(world, 0), world.table.limiters.at(0) + L_OPENS
    assert [one.charges(own, 5 * S + n) for n in range(4)] == [True, True, True, False]
    assert (used(world, 0), world.q[opens]) == ((5, 3), 6 * S)
    assert one.charges(own, 6 * S)
    assert (used(world, 0), world.q[opens]) == ((6, 1), 6 * S)


def test_what_the_others_have_charged_counts(world: World, one: Claimant) -> None:
    world.limit(0, 4, S)
    own, other = staged(world, 0), Claimant(world)
    assert [who.charges(own) for who in (one, other, one, other, one, other)] == [True] * 4 + [
        False
    ] * 2
    assert used(world, 0) == (0, 4)


def test_one_that_is_used_up_leaves_the_others_uncharged(world: World, one: Claimant) -> None:
    for row, calls in enumerate((100, 100, 2)):
        world.limit(row, calls, S)
    own = staged(world, 0, 1, 2)
    assert [one.charges(own) for _ in range(4)] == [True, True, False, False]
    assert [used(world, row) for row in range(3)] == [(0, 2)] * 3


def test_a_later_period_that_another_has_begun_is_not_gone_back_from(
    world: World, one: Claimant
) -> None:
    world.limit(0, 100, S)
    own = staged(world, 0)
    assert one.charges(own, 0)
    assert Claimant(world).charges(own, S)
    assert one.charges(own, S - 1)
    assert used(world, 0) == (1, 2)


@pytest.mark.parametrize("terms", [{}, {"running": 9}])
def test_who_took_the_time_before_another_renewed_holds_nothing(
    world: World, terms: dict[str, int]
) -> None:
    """It waited for the lock meanwhile; what it claims counts, and is stamped, in that period."""
    world.limit(0, 100, S, **terms)
    calls = [world.call(limiters=(0,)) for _ in range(2)]
    slots = [world.reader(0).stage(call) for call in calls]
    assert world.reader(0).enqueue(slots) == [0, 0]
    assert len(world.handler(0).claim(S, most=1)) == 1
    assert len(world.handler(1).claim(S - 1, most=1)) == 1
    claimed = {world.q[world.reader(0).own(slot) + word_of(SLOT, "claimed_ns")] for slot in slots}
    assert (used(world, 0), claimed) == ((1, 2), {S})


def test_other_terms_are_found(world: World, one: Claimant) -> None:
    world.limit(0, 100, S)
    own = staged(world, 0)
    assert one.charges(own)
    world.limit(0, 1, S)
    assert not one.charges(own)
    world.limit(0, 100, S)
    assert one.charges(own)
    world.limit(0, 100, S, flags=PACED)
    assert not one.charges(own), "it is no plain one any more"


def test_a_limiter_that_holds_calls_is_found(world: World, one: Claimant) -> None:
    """Others let the new call wait behind those, though its counter would let it go."""
    world.limit(0, 100, S)
    world.close_limiter(1, 1000)
    world.reader(0).offer([world.call(limiters=(1,))])
    own = staged(world, 0)
    assert one.charges(own)
    held = world.table.recovery.slots_in(1)[0]
    with world.table.queue_lock:
        q, at = world.q, world.table.slot0 + int(held) * world.table.words.shape[1]
        q[at + W_LIMITERS] = world.q[own + W_LIMITERS]
        world.table.claims._hold(int(held), 0, 0)
    assert not one.charges(own)


def test_a_row_that_went_to_another_key_is_found(world: World, one: Claimant) -> None:
    world.limit(0, 100, S)
    own, limiters = staged(world, 0), world.table.limiters
    assert one.charges(own)
    with world.table.queue_lock:
        limiters.rows[0] = 0
        assert limiters.make(key_of(Kind.CALLER), 7, Terms(limits=(1, -1, -1)), 1, 0, 0) == 0
    assert [one.charges(own) for _ in range(2)] == [True, False]
    assert used(world, 0) == (0, 1)


def test_after_a_rebuild_everything_is_looked_at_again(
    world: World, one: Claimant, looks: list[int]
) -> None:
    """A call that comes back from a dead handler may be one that its limiter had let go."""
    world.limit(0, 100, S)
    own = staged(world, 0)
    assert [one.charges(own) for _ in range(2)] == [True, True]
    with world.table.queue_lock:
        world.table.recovery.rebuild_queue()
    assert one.charges(own)
    assert len(looks) == 2


def test_calls_that_name_many_are_told_apart(world: World, one: Claimant, looks: list[int]) -> None:
    for row, calls in enumerate((100, 100, 100, 2, 100)):
        world.limit(row, calls, S)
    few, many = staged(world, 0, 1, 2, 3), staged(world, 0, 1, 2, 4)
    assert [one.charges(few) for _ in range(3)] == [True, True, False]
    assert [one.charges(many) for _ in range(3)] == [True] * 3
    assert [used(world, row)[1] for row in range(5)] == [5, 5, 5, 2, 3]
    assert len(looks) == 4 + 4 + 4, "each kind once, and the last one that a limiter lets go"


def test_a_call_that_is_marked_is_left_to_a_closer_look(world: World, one: Claimant) -> None:
    world.limit(0, 100, S)
    own = staged(world, 0)
    assert one.charges(own)
    look_closer(world.q, own)
    assert not one.charges(own)
    assert used(world, 0) == (0, 1)


def test_what_is_remembered_is_bounded(
    world: World, one: Claimant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircall.shm.plain_charges.MOST_KEPT", 2)
    for row in range(4):
        world.limit(row, 100, S)
        own = staged(world, row)
        assert one.charges(own)
        assert one.charges(own)
        assert len(one.memory._kept) <= 2
    assert [used(world, row) for row in range(4)] == [(0, 2)] * 4
