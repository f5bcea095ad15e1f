"""A reader offers calls: staged slots become QUEUED or HELD, or are refused.

A call is refused by a limiter that opens too late for it, by its principal's share of the queue, or
because its level and all lower ones are full; one that finds calls of its key held is held with
them at once, if there is room for that. In turn, the call's turn is the one after its principal's
last. All of it with the queue lock held, which `enqueue` takes once for all that it is given.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from .blockers import COUNTS, NOBODY, REFUSES
from .budgets import COUNTED
from .held import W_SINCE
from .layout import CLASSES, GROUP_SHIFT, IDENTITY, SLOT, WORD, word_of
from .policy import QueuePolicy
from .rings import SLOT_WORDS, W_CALL, W_SEQ, W_TURN
from .slot_limiters import W_BUDGET, W_HELD_BY, W_LIMITERS, look_closer
from .states import (
    CLASS_SHIFT,
    GENERATIONS,
    HELD,
    LEVEL_MASK,
    LEVEL_SHIFT,
    NOBODYS,
    QUEUED,
    STATE_MASK,
)
from .terms import REFUSED

if TYPE_CHECKING:
    from .table import CallTable

W_PRINCIPAL, W_RESERVED = (word_of(SLOT, name) for name in ("principal", "reserved"))
IDENTITY_WORDS = IDENTITY.itemsize // WORD
LANE_PART = 4  # of a lane, that one principal may have

# Verdicts of `enqueue`, one per call. (ACCEPTED is 0, so that `any` finds all others.)
ACCEPTED, LEVEL_FULL, PRINCIPAL_FULL, THROTTLED, TOO_MANY_HELD = range(5)


class Offers:
    """Works on the table that it is given, whose queue lock exists."""

    def __init__(self, table: CallTable) -> None:
        self._q, self._slot0, self._levels = table.q, table.slot0, table.geometry.levels
        self._waiting0, self._last_turn0 = table.waiting0, table.last_turn0
        self._numbers = table.geometry.ring_numbers
        self._groups = table.group_draws if table.geometry.groups > 1 else ()
        self._group_waiting0 = table.group_waiting0
        self._seq_word, self._waiting_word = table.seq_word, table.waiting_word
        self._overflowed_word = table.overflowed_word
        self._arrival_turn_word = table.arrival_turn_word
        self._held, self._blockers = table.held, table.blockers
        self._level_held = table.held.level_held_word
        self._append, self._most_turns = table.rings.append, table.rings.turns
        self._turn_word, self._ring_waiting = table.rings.turn_word, table.rings.waiting_word
        self._leads, self._turns = table.rings.lead_word, table.turns
        self._backlogs = table.backlogs
        self._joint, self._queue_lock = table.joint, table.queue_lock
        self._load_policy, self._idle_to_wake = table.load_policy, table.idle_to_wake
        self._table, self._express_to_wake = table, table.express_to_wake

    def enqueue(
        self,
        calls: Sequence[tuple[int, int]],
        verdicts: list[int],
        now_ns: int = 0,
        limited: Collection[int] | None = None,
    ) -> int:
        """Offer staged `calls`, (slot, level) each; `verdicts[i]` says what became of the i-th.

        A level that is full passes the call on to the next lower one. Returns the handlers to wake,
        as a bitmap of indices. The slots' other words were stored before. `limited` are the slots
        whose limiters may refuse or hold them at once; None: all that name any.
        """
        q, slot0, admit, arrive = self._q, self._slot0, self._admit, self._arrive
        with self._queue_lock:
            policy = self._load_policy()
            accepted = expected_ns = 0
            for index, (slot, level) in enumerate(calls):
                own = slot0 + slot * SLOT_WORDS
                row = NOBODY
                if (limited is None or slot in limited) and q[own + W_LIMITERS]:
                    row = self._blockers.stops(own)
                    if row == REFUSES:
                        verdicts[index] = THROTTLED
                        continue
                verdict, level = admit(policy, own, level)
                if row != NOBODY and verdict == ACCEPTED:
                    if row != COUNTS:
                        verdicts[index] = self._join(policy, own, slot, level, row, now_ns)
                        continue
                    self._backlogs.arrives(own)
                verdicts[index] = verdict
                if verdict == ACCEPTED:
                    turn = arrive(policy, own, level, QUEUED)
                    self._append(level, q[own + W_CALL] >> CLASS_SHIFT & 1, turn, slot)
                    accepted += 1
                    expected_ns += q[own + W_RESERVED] or policy.claim_ahead_ns
            if self._groups:
                return self._count_by_group(policy, [slot for slot, _ in calls], verdicts)
            q[self._waiting_word] += accepted
            if q[self._joint.gathering_word] and accepted:
                slots = [calls[i][0] for i in range(len(calls)) if verdicts[i] == ACCEPTED]
                wake = self._joint.to_wake(slots, expected_ns)
            else:
                wake = self._idle_to_wake(accepted, expected_ns) if accepted else 0
            return wake | self._express_to_wake(0) if self._leads else wake

    def _count_by_group(
        self, policy: QueuePolicy, slots: Sequence[int], verdicts: Sequence[int]
    ) -> int:
        """What `enqueue` does with the calls that it has queued, for each group of them."""
        q, wake = self._q, 0
        queued: list[list[int]] = [[] for _ in self._groups]
        expected_ns = [0] * len(queued)
        for slot, verdict in zip(slots, verdicts, strict=False):
            own = self._slot0 + slot * SLOT_WORDS
            if verdict == ACCEPTED and q[own] & STATE_MASK == QUEUED:
                group = (q[own] >> LEVEL_SHIFT & LEVEL_MASK) >> GROUP_SHIFT
                queued[group].append(slot)
                expected_ns[group] += q[own + W_RESERVED] or policy.claim_ahead_ns
        for group, accepted in enumerate(queued):
            draws = self._groups[group]
            q[draws.waiting_word] += len(accepted)
            if accepted and q[draws.gathering_word]:
                self._joint.follow(draws)
                wake |= self._joint.to_wake(accepted, expected_ns[group])
            elif accepted:
                wake |= self._idle_to_wake(len(accepted), expected_ns[group], group)
            if accepted:
                wake |= self._express_to_wake(group)
        return wake

    def _admit(self, policy: QueuePolicy, own: int, level: int) -> tuple[int, int]:
        """(verdict, level where there is room) of one call: by count and by its principal's."""
        q = self._q
        row, levels = q[own + W_PRINCIPAL] & 0xFFFF_FFFF, policy.levels
        if level >= self._levels:  # a lane, or another group's
            base = level >> GROUP_SHIFT << GROUP_SHIFT
            if (lane := level - base - self._levels) >= 0:
                if policy.lane_shares[lane]:
                    return self._admit_to_lane(policy, row, level), level
                level = base
            levels += base
        mine = self._waiting0 + row * IDENTITY_WORDS
        if self._groups:
            mine = self._waiting_of(row, level)
        if q[mine] >= policy.max_principal:
            return PRINCIPAL_FULL, level
        at = level if level < levels else levels - 1
        while self._occupied(at) >= policy.rooms[at]:
            q[self._overflowed_word + at] += 1
            at += 1
            if at == levels:
                return LEVEL_FULL, level
        return ACCEPTED, at

    def _admit_to_lane(self, policy: QueuePolicy, row: int, level: int) -> int:
        """A full lane refuses: it takes no draws of the levels.

        What a principal has waiting in the levels does not keep it out. How much it has in the
        lane is told by its turns: at most LANE_PART of the lane.
        """
        q, capacity = self._q, policy.rooms[level]
        ahead = 0
        if policy.in_turn:
            ahead = self._turns.last(row, level) + 1 - q[self._turn_word + level]
        if ahead > max(1, capacity // LANE_PART):
            return PRINCIPAL_FULL
        return ACCEPTED if self._occupied(level) < capacity else LEVEL_FULL

    def _waiting_of(self, principal: int, level: int) -> int:
        """The word that counts what a principal has waiting in the group of that ring."""
        if self._groups:
            return self._group_waiting0 + principal * len(self._groups) + (level >> GROUP_SHIFT)
        return self._waiting0 + principal * IDENTITY_WORDS

    def _occupied(self, level: int) -> int:
        """How many calls wait at `level`, or are held there."""
        q, both = self._q, self._ring_waiting + level * CLASSES
        return q[both] + q[both + 1] + q[self._level_held + level]

    def _join(
        self, policy: QueuePolicy, own: int, slot: int, level: int, row: int, now_ns: int
    ) -> int:
        """A call of a key that limiter `row` holds calls of is held with them, if there is room."""
        if self.holds_too_many(policy, own, level, 0):
            self._blockers.counts(row, REFUSED)
            return TOO_MANY_HELD
        self._blockers.counts_join(row, now_ns)
        q = self._q
        look_closer(q, own)
        q[own + W_HELD_BY] = row + 1
        q[own + W_SINCE] = now_ns
        self._arrive(policy, own, level, HELD)
        self._held.append(row, slot, level)
        if q[own + W_BUDGET] >= COUNTED:
            self._backlogs.arrives(own)
        return ACCEPTED

    def holds_too_many(self, policy: QueuePolicy, own: int, level: int, itself: int) -> bool:
        """Whether one more would be too many: what limiters hold at `level`, and what the call's
        principal has waiting (`itself`: the call is counted there), exceed the level's share.

        So of n principals who flood each gets room / (n + 1), and as much is left for others.
        """
        room = policy.held_room(level)
        if not room:
            return False
        principal = self._q[own + W_PRINCIPAL] & 0xFFFF_FFFF
        mine = self._q[self._waiting_of(principal, level)] - itself
        return self._held.at_level(level) + mine >= room

    def _arrive(self, policy: QueuePolicy, own: int, level: int, state: int) -> int:
        """A staged call waits from now on, in `state`; its turn, as it stands in its ring."""
        q, principal = self._q, self._q[own + W_PRINCIPAL] & 0xFFFF_FFFF
        now = q[self._turn_word + level]
        if policy.in_turn and self._leads:
            turn = self._turns.after_last(principal, level, q[own + W_CALL] >> CLASS_SHIFT & 1)
        elif policy.in_turn:
            last = self._last_turn0 + principal * self._numbers + level
            turn = q[last] + 1
            if turn < now:
                turn = now
            elif turn - now >= self._most_turns:
                turn = now + self._most_turns - 1
            q[last] = turn
        else:
            turn = max(now, q[self._arrival_turn_word + level])
        if self._leads and state == QUEUED and not q[own + W_CALL] >> CLASS_SHIFT & 1:
            turn += q[self._leads + level]
        seq = q[self._seq_word]
        q[own + W_SEQ], q[own + W_TURN] = seq, turn
        q[self._seq_word] = seq + 1
        q[own] = state | level << LEVEL_SHIFT | NOBODYS | q[own] & GENERATIONS  # <- accepted here
        q[self._waiting0 + principal * IDENTITY_WORDS] += 1
        if self._groups:
            q[self._waiting_of(principal, level)] += 1
        return turn
