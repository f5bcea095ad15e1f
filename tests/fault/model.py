"""The queue as anybody would write it without shared memory: lists, dictionaries, and `min`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from faircall.shm import states
from faircall.shm.held import FIRST, REBUILT
from faircall.shm.layout import LANES, MAX_LEVELS
from faircall.shm.offers import ACCEPTED, LANE_PART, LEVEL_FULL, PRINCIPAL_FULL
from faircall.shm.policy import WHOLE, QueuePolicy
from faircall.shm.rings import SLOT_WORDS, W_SEQ, W_TURN
from faircall.shm.slot_limiters import W_HELD_BY
from faircall.shm.states import HELD, QUEUED

from .calls import Call
from .world import World


@dataclass(slots=True)
class Place:
    """Where a call waits: served in the order of (turn, seq)."""

    call: Call
    level: int
    turn: int
    seq: int
    held_by: int | None = None  # the limiter that holds it, or has let it go

    @property
    def key(self) -> tuple[int, int]:
        return self.turn, self.seq


@dataclass(slots=True)
class QueueModel:
    """Calls by tag. `opens_ns` by limiter, `held` in the order of holding, by limiter."""

    policy: QueuePolicy
    waiting: dict[int, Place] = field(default_factory=dict)
    held: dict[int, list[Place]] = field(default_factory=lambda: {0: [], 1: []})
    opens_ns: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    level_turn: list[int] = field(default_factory=lambda: [0] * MAX_LEVELS)
    arrival_turn: list[int] = field(default_factory=lambda: [FIRST + 1] * MAX_LEVELS)
    last_turn: dict[tuple[int, int], int] = field(default_factory=dict)
    lane0: int = 4  # the first lane: behind the levels of the segment
    lane_debt: list[int] = field(default_factory=lambda: [0] * LANES)
    seq: int = 0
    cursor: int = 0
    credit: int = 0
    rebuilt: bool = False  # since a limiter let calls go

    def everybody(self) -> Iterable[Place]:
        """All who wait or are held."""
        yield from self.waiting.values()
        for chain in self.held.values():
            yield from chain

    def enqueue(self, call: Call) -> int:
        """Admit `call`, or not: the verdict."""
        levels, wanted = self.policy.levels, call.level
        if wanted >= self.lane0:
            if self.policy.lane_shares[wanted - self.lane0]:
                return self._enter_lane(call)
            wanted = 0
        mine = [place for place in self.everybody() if place.call.who == call.who]
        if len(mine) >= self.policy.max_principal:
            return PRINCIPAL_FULL
        for level in range(min(wanted, levels - 1), levels):
            if self._has_room(level, level):
                self._admit(call, level)
                return ACCEPTED
        return LEVEL_FULL

    def _enter_lane(self, call: Call) -> int:
        turns = self.last_turn.get((call.who, call.level), 0) + 1 - self.level_turn[call.level]
        if self.policy.in_turn and turns > max(1, self.policy.capacities[0] // LANE_PART):
            return PRINCIPAL_FULL
        if not self._has_room(call.level, 0):
            return LEVEL_FULL
        self._admit(call, call.level)
        return ACCEPTED

    def _has_room(self, level: int, like: int) -> bool:
        there = [place for place in self.everybody() if place.level == level]
        return len(there) < self.policy.capacities[like]

    def _admit(self, call: Call, level: int) -> None:
        turn = self.level_turn[level]
        if self.policy.in_turn:
            turn = max(turn, self.last_turn.get((call.who, level), 0) + 1)
            self.last_turn[call.who, level] = turn
        else:
            turn = max(turn, self.arrival_turn[level])
        place = Place(call, level, turn, self.seq)
        self.seq += 1
        joined = [row for row in call.limiters if self.held[row]]
        if joined:
            place.held_by = joined[0]
            self.held[joined[0]].append(place)
        else:
            self.waiting[call.tag] = place

    def draw(self, now_ns: int) -> Call | None:
        """The call that is served next; what may not run now is held on the way."""
        while True:
            while self.waiting:
                place = self._first()
                by = self._blocker(place, now_ns)
                del self.waiting[place.call.tag]
                place.held_by = by
                if by is None:
                    self._pay(place.level)
                    self.level_turn[place.level] = max(self.level_turn[place.level], place.turn)
                    return place.call
                self.held[by].append(place)
            if not self.open(now_ns):
                return None

    def _blocker(self, place: Place, now_ns: int) -> int | None:
        """The limiter that is closed longest; or the first that has others of its calls waiting."""
        closed = [row for row in place.call.limiters if self.opens_ns[row] > now_ns]
        if closed:
            return max(closed, key=self.opens_ns.__getitem__)
        if place.held_by is not None:
            return None
        joined = [row for row in place.call.limiters if self.held[row] or self._let_go(row)]
        return joined[0] if joined else None

    def _let_go(self, row: int) -> int:
        return sum(place.held_by == row for place in self.waiting.values())

    def _first(self) -> Place:
        lanes = range(self.lane0 + LANES - 1, self.lane0 - 1, -1)
        before = [lane for lane in lanes if self._may_go(lane)]
        after = range(self.lane0, self.lane0 + LANES)
        for level in (*before, self.cursor, *range(self.policy.levels), *after):
            there = [place for place in self.waiting.values() if place.level == level]
            if there:
                return min(there, key=lambda place: place.key)
        raise AssertionError("nobody waits on any level")

    def _may_go(self, lane: int) -> bool:
        alone = all(place.level == lane for place in self.waiting.values())
        share = self.policy.lane_shares[lane - self.lane0]
        return alone or not share or self.lane_debt[lane - self.lane0] < share

    def _pay(self, level: int) -> None:
        """Of the call that was just taken out of `waiting`."""
        if level < self.lane0:
            self._advance()
        elif any(place.level != level for place in self.waiting.values()):
            self.lane_debt[level - self.lane0] += WHOLE
        for lane, share in enumerate(self.policy.lane_shares):
            self.lane_debt[lane] = max(0, self.lane_debt[lane] - share)

    def _advance(self) -> None:
        self.credit -= 1
        if self.credit == 0:
            self.cursor = (self.cursor + 1) % self.policy.levels
            self.credit = self.policy.weights[self.cursor]

    def open(self, now_ns: int) -> bool:
        """Held calls whose limiter is open wait again, when those that it let go before have gone;
        whether there were any."""
        latest: dict[tuple[int, int], int] = {}
        due = [row for row in sorted(self.held) if self.opens_ns[row] <= now_ns and self.held[row]]
        due = [row for row in due if self.rebuilt or not self._let_go(row)]
        self.rebuilt = False
        for row in due:
            for place in sorted(self.held[row], key=lambda place: place.key):
                self._again(place, latest)
            self.held[row] = []
        return bool(due)

    def _again(self, place: Place, latest: dict[tuple[int, int], int]) -> None:
        now, key = self.level_turn[place.level], (place.call.who, place.level)
        if self.policy.in_turn:
            place.turn = latest[key] = max(now, place.turn, latest.get(key, -1) + 1)
            self.last_turn[key] = max(self.last_turn.get(key, 0), place.turn)
        else:
            place.turn = max(now, FIRST + 1)
        self.waiting[place.call.tag] = place

    def withdraw(self, tag: int) -> bool:
        """`tag` is given up; whether it waited or was held."""
        if self.waiting.pop(tag, None):
            return True
        for chain in self.held.values():
            for place in chain:
                if place.call.tag == tag:
                    chain.remove(place)
                    return True
        return False

    def learn(self, world: World) -> None:
        """Everything anew from the words, after a death or another policy."""
        table, q = world.table, world.q
        with table.queue_lock:
            self.policy = table.load_policy()
        self.level_turn = list(q[table.rings.turn_word : table.rings.turn_word + MAX_LEVELS])
        first = table.arrival_turn_word
        self.arrival_turn = list(q[first : first + MAX_LEVELS])
        self.last_turn = {
            (who, level): q[table.last_turn0 + who * MAX_LEVELS + level]
            for who in range(world.shared.geometry.identities)
            for level in range(MAX_LEVELS)
        }
        self.seq, self.cursor = q[table.seq_word], q[table.draws.cursor_word]
        self.credit = q[table.draws.credit_word]
        self.lane0 = world.shared.geometry.levels
        debts = table.draws.lane_debt_word
        self.lane_debt = list(q[debts : debts + LANES])
        queued = [_place(world, int(slot)) for slot in table.recovery.slots_in(QUEUED)]
        self.waiting = {place.call.tag: place for place in queued}
        for row in self.held:
            self.held[row] = [_place(world, slot) for slot in table.held.chain(row)]
        self.rebuilt = q[table.held.next_open_word] == REBUILT
        held = sum(len(chain) for chain in self.held.values())
        assert held == len(table.recovery.slots_in(HELD))


def _place(world: World, slot: int) -> Place:
    q, own = world.q, world.table.slot0 + slot * SLOT_WORDS
    level = q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
    call = world.calls[world.handler(0).tag(slot)]
    held_by = q[own + W_HELD_BY] - 1 if call.limiters and q[own + W_HELD_BY] else None
    return Place(call, level, q[own + W_TURN], q[own + W_SEQ], held_by)
