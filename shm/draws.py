"""Which of the waiting calls is served next: weighted round robin over the levels, lanes before it.

A *lane* is a queue beside the levels whose calls go first, as long as they take at most a share of
the draws: RESERVED for heartbeats and the like (the real-time queue of HADOOP-9640), SERVICE for
service users. While anybody else waits, a draw of a lane puts it in debt by one draw, and every
draw pays its share of a draw back; with less than a share to pay it may be drawn again. So of any N
draws a lane gets at most N * share + 1. When nobody else waits its calls are free.

Level numbers of lanes follow those of the levels that the segment has room for. All of this runs
with the queue lock held; the debts are left as they are by a rebuild.
"""

from __future__ import annotations

from . import states
from .layout import CLASSES, LANES, SHARD
from .policy import QueuePolicy
from .rings import TurnRings
from .segment import Segment

SERVICE, RESERVED = range(LANES)
LANE_NAMES = ("service", "reserved")
WHOLE = 1000  # a draw; shares are thousandths of it


class Draws:
    """`next` names the call, `drawn` moves the cursor behind it."""

    def __init__(self, segment: Segment, rings: TurnRings, slot0: int, slot_words: int) -> None:
        self._q, self._rings, self._slot0, self._slot_words = segment.q, rings, slot0, slot_words
        self._levels = segment.geometry.levels
        shard = segment.layout.shard
        self._waiting = segment.word(shard, SHARD, "waiting")
        self.drawn_word = segment.word(shard, SHARD, "drawn")
        self.lane_debt_word = segment.word(shard, SHARD, "lane_debt")
        self._in_lanes = rings.waiting_word + self._levels * CLASSES
        self.cursor_word = segment.word(shard, SHARD, "cursor")
        self.credit_word = segment.word(shard, SHARD, "credit")

    def next(self, policy: QueuePolicy) -> int:
        """The slot that is served next; -1 if nothing waits."""
        q = self._q
        if any(q[self._in_lanes : self._in_lanes + LANES * CLASSES]):
            slot = self._first_of_lanes(policy)
            if slot >= 0:
                return slot
        return self._first_from(policy, q[self.cursor_word])

    def drawn(self, policy: QueuePolicy, slot: int) -> None:
        """`slot`, which `next` has named, is drawn and about to leave its ring."""
        q = self._q
        q[self.drawn_word] += 1
        self._rings.reach(slot)
        word = q[self._slot0 + slot * self._slot_words]
        lane = (word >> states.LEVEL_SHIFT & states.LEVEL_MASK) - self._levels
        if lane < 0:
            self._advance_cursor(policy)
        elif self._waits_in(lane) < q[self._waiting]:
            q[self.lane_debt_word + lane] += WHOLE
        if policy.has_lanes:
            self._pay_back(policy)

    def _pay_back(self, policy: QueuePolicy) -> None:
        q, debts = self._q, self.lane_debt_word
        for lane, share in enumerate(policy.lane_shares):
            if q[debts + lane]:
                q[debts + lane] = max(0, q[debts + lane] - share)

    def _advance_cursor(self, policy: QueuePolicy) -> None:
        """After a draw the cursor moves as WeightedRoundRobinMultiplexer's does."""
        q = self._q
        level, credit = q[self.cursor_word], q[self.credit_word]
        if credit > 1:
            q[self.credit_word] = credit - 1
        else:
            following = level + 1 if level + 1 < policy.levels else 0
            q[self.credit_word] = policy.weights[following]
            q[self.cursor_word] = following

    def _first_of_lanes(self, policy: QueuePolicy) -> int:
        """The first call of a lane that may go before the levels; -1 if none may."""
        q = self._q
        for lane in (RESERVED, SERVICE):
            waits = self._waits_in(lane)
            if not waits:
                continue
            share = policy.lane_shares[lane]
            free = waits == q[self._waiting] or not share  # one that is off is emptied
            if free or q[self.lane_debt_word + lane] < share:
                return self._rings.first_of_level(self._levels + lane)
        return -1

    def _waits_in(self, lane: int) -> int:
        at = self._in_lanes + lane * CLASSES
        return self._q[at] + self._q[at + 1]

    def _first_from(self, policy: QueuePolicy, level: int) -> int:
        """The first call of `level`; if none waits there, of the first level that has one."""
        rings = self._rings
        slot = rings.first_of_level(level)
        if slot >= 0:
            return slot
        start = level if policy.scan_from_cursor else 0
        for step in range(policy.levels):
            slot = rings.first_of_level((start + step) % policy.levels)
            if slot >= 0:
                return slot
        # On its way to the lowest level after a change; or in lanes that have used up their shares.
        for other in range(policy.levels, self._levels + LANES):
            slot = rings.first_of_level(other)
            if slot >= 0:
                return slot
        return -1
