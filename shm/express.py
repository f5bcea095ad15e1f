"""Express handlers: short calls go on while all other handlers of their group run long ones.

They claim calls of the SHORT class only, by weights and in turn, with a cursor and lane debts of
their own: what they draw takes no draw from the ordinary handlers, whose order stays as it would be
without these calls. A turn that they draw moves the SHORT ring of that level alone (`rings`).

They claim only as long as every ordinary handler of the group is *taken*: it has claimed a LONG
call, or is not there. So while all calls are short nobody wakes them, and who can claim many calls
at once does so. A bit for each handler says that it is taken:

    set      by its claim of a LONG call; when it leaves or was reaped
    cleared  by its next claim

Whoever sets the last one, or brings a short call while all are set, rings an express handler. The
bits are an index: a rebuild derives them from the slots' words and the process records. Everything
here runs with the queue lock held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import states
from .draws import Draws
from .layout import CLASSES, GROUP, LANES
from .policy import QueuePolicy
from .rings import W_TURN

if TYPE_CHECKING:
    from .table import CallTable

LATELY_NS = 1_000_000_000  # short calls that came beside long ones: more of them may come


class ExpressDraws(Draws):
    """What the express handlers of one group draw."""

    def __init__(self, table: CallTable, group: int, express: Express) -> None:
        super().__init__(table.segment, table.rings, table.slot0, table.words.shape[1], group)
        segment = table.segment
        record = segment.layout.groups + group * GROUP.itemsize
        self.cursor_word = segment.word(record, GROUP, "express_cursor")
        self.credit_word = segment.word(record, GROUP, "express_credit")
        self.lane_debt_word = segment.word(record, GROUP, "express_lane_debt")
        self._first_of = table.rings.first_short
        self._lanes = self._lanes[states.SHORT :: CLASSES]
        first = table.rings.waiting_word + self.base * CLASSES + states.SHORT
        end = self._in_lanes + LANES * CLASSES
        self._short_words = range(first, end, CLASSES)
        self._express = express

    def waits(self) -> bool:
        return self._express.are_wanted() and self.count_waiting() > 0

    def count_waiting(self) -> int:
        """SHORT calls of the group that wait."""
        q = self._q
        return sum(q[at] for at in self._short_words)

    def next(self, policy: QueuePolicy) -> int:
        return super().next(policy) if self._express.are_wanted() else -1

    def drawn(self, policy: QueuePolicy, slot: int, *, out_of_turn: bool = False) -> None:
        q, rings, own = self._q, self._rings, self._slot0 + slot * self._slot_words
        level = q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
        lead = q[own + W_TURN] - q[rings.turn_word + level]
        if lead > q[rings.lead_word + level] and not out_of_turn:
            q[rings.lead_word + level] = lead
        super().drawn(policy, slot, out_of_turn=True)

    def _waits_in(self, lane: int) -> int:
        return self._q[self._in_lanes + lane * CLASSES + states.SHORT]


class Express:
    """The express handlers of one group, and who keeps them asleep."""

    def __init__(self, table: CallTable, group: int) -> None:
        self._q, geometry, segment = table.q, table.geometry, table.segment
        self._idle, self._taken = table.idle_word, table.taken_word
        self._numbers = geometry.express_of(group)
        self._members = _by_word(table.bits_of(self._numbers))
        self._ordinary = _by_word(table.bits_of(geometry.ordinary_of(group)))
        record = segment.layout.groups + group * GROUP.itemsize
        self._drawn_ns_word = segment.word(record, GROUP, "express_ns")
        self.draws = ExpressDraws(table, group, self)

    def are_wanted(self) -> bool:
        """Whether no ordinary handler can be had soon: each runs a LONG call, or is not there."""
        q, taken = self._q, self._taken
        for word, bits in self._ordinary:  # noqa: SIM110 (this is asked at every draw)
            if q[taken + word] & bits != bits:
                return False
        return True

    def to_wake(self) -> int:
        """The bit of an express handler to be rung, which idles no more then; 0: nobody needs to
        be, or none idles."""
        return self.wake() if self.draws.waits() else 0

    def wake(self) -> int:
        """That of one that idles, whatever waits."""
        q = self._q
        for word, bits in self._members:
            if idle := q[self._idle + word] & bits:
                bit = idle & -idle
                q[self._idle + word] ^= bit
                return bit << 64 * word
        return 0

    def returns(self, handler: int) -> None:
        """`handler`, of this group, has ended what it had claimed."""
        self._q[self._taken + (handler >> 6)] &= ~(1 << (handler & 63))

    def claimed(self, handler: int, now_ns: int, *, is_long: bool) -> int:
        """`handler` has claimed calls, the last of which `is_long`; who is to be rung."""
        if handler in self._numbers:
            self._q[self._drawn_ns_word] = now_ns
            return self.to_wake()  # another one for those that it did not take
        return self.leaves(handler) if is_long else 0

    def leaves(self, handler: int) -> int:
        """`handler` has no time for short calls; who is to be rung for those that wait."""
        self._q[self._taken + (handler >> 6)] |= 1 << (handler & 63)
        return self.to_wake()

    def are_busy(self, now_ns: int) -> bool:
        """Whether they serve what comes now, and something did come of late (without a lock)."""
        drawn_ns = self._q[self._drawn_ns_word]
        return bool(drawn_ns) and now_ns - drawn_ns < LATELY_NS and self.are_wanted()


def _by_word(bits: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(word, its bits) of those words that have any."""
    return tuple((word, mask) for word, mask in enumerate(bits) if mask)
