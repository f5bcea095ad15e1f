"""Which of the waiting calls is served next: weighted round robin over the levels, lanes before it.

A *lane* is a queue beside the levels whose calls go first, as long as they take at most a share of
the draws: RESERVED for heartbeats and the like (the real-time queue of HADOOP-9640), SERVICE for
service users. While anybody else waits, a draw of a lane puts it in debt by one draw, and every
draw pays its share of a draw back; with less than a share to pay it may be drawn again. So of any N
draws a lane gets at most N * share + 1. When nobody else waits its calls are free.

Level numbers of lanes follow those of the levels that the segment has room for. Each group of
handlers has levels and lanes of its own, with a cursor and debts of their own. All of this runs
with the queue lock held; the debts are left as they are by a rebuild.
"""

from __future__ import annotations

from . import states
from .layout import CLASSES, GROUP, GROUP_SHIFT, LANES
from .policy import WHOLE, QueuePolicy
from .rings import W_CALL, W_TURN, TurnRings
from .segment import Segment

SERVICE, RESERVED = range(LANES)
LANE_NAMES = ("service", "reserved")


class Draws:
    """Those of one group: `next` names the call, `drawn` moves the cursor behind it.

    `base` is the ring number of its level 0, `lane0` that of its first lane.
    """

    def __init__(
        self, segment: Segment, rings: TurnRings, slot0: int, slot_words: int, group: int = 0
    ) -> None:
        self._q, self._rings, self._slot0, self._slot_words = segment.q, rings, slot0, slot_words
        self.group, self.base = group, group << GROUP_SHIFT
        self.lane0 = self.base + segment.geometry.levels
        record = segment.layout.groups + group * GROUP.itemsize
        self.waiting_word = self._waiting = segment.word(record, GROUP, "waiting")
        self.drawn_word = segment.word(record, GROUP, "drawn")
        self.lane_debt_word = segment.word(record, GROUP, "lane_debt")
        self._in_lanes = rings.waiting_word + self.lane0 * CLASSES
        self._lanes = self._q[self._in_lanes : self._in_lanes + LANES * CLASSES]
        self._first_of, self._leads = rings.first_of_level, rings.lead_word
        self._turn_word = rings.turn_word
        self.cursor_word = segment.word(record, GROUP, "cursor")
        self.credit_word = segment.word(record, GROUP, "credit")
        self.gathering_word = segment.word(record, GROUP, "gathering")
        self.gathering_room_word = segment.word(record, GROUP, "gathering_room")

    def waits(self) -> bool:
        """Whether anything waits that `next` may name."""
        return bool(self._q[self._waiting])

    def count_waiting(self) -> int:
        """Calls of the group that wait, of the classes that are drawn here."""
        return self._q[self._waiting]

    def next(self, policy: QueuePolicy) -> int:
        """The slot that is served next; -1 if nothing waits."""
        if any(self._lanes):
            slot = self._first_of_lanes(policy)
            if slot >= 0:
                return slot
        level = self._q[self.cursor_word]
        slot = self._first_of(self.base + level)
        return slot if slot >= 0 else self._first_elsewhere(policy, level)

    def drawn(self, policy: QueuePolicy, slot: int, *, out_of_turn: bool = False) -> None:
        """`slot`, which `next` has named, is drawn and about to leave its ring; or another one of
        a level, `out_of_turn`, which leaves the level's turn as it is."""
        q, own = self._q, self._slot0 + slot * self._slot_words
        q[self.drawn_word] += 1
        level, turn = q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK, q[own + W_TURN]
        if self._leads and not q[own + W_CALL] >> states.CLASS_SHIFT & 1:  # a SHORT one
            turn -= q[self._leads + level]
        at = self._turn_word + level
        if turn > q[at] and not out_of_turn:  # nothing waits there at an earlier turn
            q[at] = turn
        lane = level - self.lane0
        if lane < 0:
            credit = q[self.credit_word]
            if credit > 1:
                q[self.credit_word] = credit - 1
            else:
                self._advance_cursor(policy, credit)
        elif self._waits_in(lane) < self.count_waiting():
            q[self.lane_debt_word + lane] += WHOLE
        if policy.has_lanes:
            self._pay_back(policy)

    def _pay_back(self, policy: QueuePolicy) -> None:
        q, debts = self._q, self.lane_debt_word
        for lane, share in enumerate(policy.lane_shares):
            if q[debts + lane]:
                q[debts + lane] = max(0, q[debts + lane] - share)

    def _advance_cursor(self, policy: QueuePolicy, credit: int) -> None:
        """After a draw the cursor moves as WeightedRoundRobinMultiplexer's does."""
        q = self._q
        following, weight = self.following(policy, q[self.cursor_word], credit)
        q[self.credit_word] = weight
        q[self.cursor_word] = following

    @staticmethod
    def following(policy: QueuePolicy, level: int, credit: int) -> tuple[int, int]:
        """The cursor and its credit after a draw."""
        if credit > 1:
            return level, credit - 1
        following = level + 1 if level + 1 < policy.levels else 0
        return following, policy.weights[following]

    def _first_of_lanes(self, policy: QueuePolicy) -> int:
        """The first call of a lane that may go before the levels; -1 if none may."""
        q = self._q
        for lane in (RESERVED, SERVICE):
            waits = self._waits_in(lane)
            if not waits:
                continue
            share = policy.lane_shares[lane]
            free = waits == self.count_waiting() or not share  # one that is off is emptied
            if free or q[self.lane_debt_word + lane] < share:
                return self._first_of(self.lane0 + lane)
        return -1

    def _waits_in(self, lane: int) -> int:
        at = self._in_lanes + lane * CLASSES
        return self._q[at] + self._q[at + 1]

    def _first_elsewhere(self, policy: QueuePolicy, level: int) -> int:
        """None waits at `level`: the first call of the first level that has one."""
        first_of, base = self._first_of, self.base
        start, levels = level if policy.scan_from_cursor else 0, policy.levels
        for step in range(levels):
            slot = first_of(base + (start + step) % levels)
            if slot >= 0:
                return slot
        # On its way to the lowest level after a change; or in lanes that have used up their shares.
        for other in range(base + policy.levels, self.lane0 + LANES):
            slot = first_of(other)
            if slot >= 0:
                return slot
        return -1
