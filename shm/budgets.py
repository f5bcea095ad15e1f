"""What a call is charged when it is dispatched: the limiters of a slot, all together.

A call may go when all its limiters are open (`blockers`); it is then charged to all of them, before
its state word says that it runs; one that is held charges none. Calls and bytes of the request are
known by then. Handler time and bytes of the answer are reserved at the method's average, and
settled when the call has ended, before it is published (`settling`):

    used of each limiter      the difference
    the slot's `budget`       0: settled

So who dies in between leaves too much charged, never too little: the janitor adds what a complete
answer lacks (`settle_dead`), and gives nothing back.

A method that never ran has no average: where its handler time is limited, one call at a time goes
through its row (LEARNS) until the first is settled.

Where a batch counts as one call, its head is charged for all, and marks the others PAID; they go
without a look at any limit but that of running calls. Each slot names the next of its batch, with
its generation, so that a call which was given up meanwhile ends the marking: what comes behind it
is charged by itself.

    budget    COUNTED << 63 | microseconds << 32 | answer bytes << 3 | AGAIN | PAID | RESERVED

AGAIN: it was claimed before, and returned because its handler died; it overtakes nobody. COUNTED:
see `backlogs`; of a call that is claimed, it runs uncharged, and counts among those that run.

Calls that are withdrawn while they wait cost nothing, or, if their reader says so, what a dispatch
would have charged: calls and bytes of the request, before their slot is FREE.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import states
from .held import FIRST, HeldCalls
from .layout import SLOT, WORD, word_of
from .limiter_counters import (
    L_FLAGS,
    L_LIMIT,
    L_OPENED,
    L_OPENS,
    L_RUNNING,
    LIMITER_WORDS,
    MOST_ROOM,
)
from .limiters import Limiters
from .rings import SLOT_WORDS, W_CALL, W_TURN, Slots
from .segment import Segment
from .slot_limiters import (
    MORE,
    W_BATCH,
    W_BUDGET,
    W_HELD_BY,
    W_LIMITERS,
    look_closer,
    numbers_in,
    numbers_of,
    table_of,
)
from .states import HELD, QUEUED
from .terms import ANSWER, BYTES, CALLS, EACH, HANDLER, REQUEST, SETTLES

MOST_KEPT = 4096  # sets of limiters that calls name
W_CLAIMED, W_REQUEST, W_DEADLINE = (
    word_of(SLOT, name) for name in ("claimed_ns", "request", "deadline_ns")
)
RESERVED, PAID, AGAIN = 1, 2, 4
BYTES_SHIFT, BYTES_MOST = 3, (1 << 29) - 1
US_SHIFT, US_MOST = 32, (1 << 31) - 1
COUNTED = 1 << 63  # so that any word which has it is not below it
_LOW = 0xFFFF_FFFF


class Budgets:
    """Of calls by where their slot's words begin; everything with the queue lock held."""

    def __init__(
        self,
        segment: Segment,
        slot_words: npt.NDArray[np.uint64],
        limiters: Limiters,
        held: HeldCalls,
    ) -> None:
        self._q, self._words = segment.q, slot_words
        self._slot0 = segment.layout.slots // WORD
        self._limiters, self._held = limiters, held
        self._row0 = limiters.first - limiters.stride  # slots name rows + 1
        self._rows: dict[int, tuple[int, ...]] = {}  # by the first word of `limiters`

    # -- charging --------------------------------------------------------------------------------

    def charge(self, own: int, now_ns: int) -> list[int]:
        """All limiters of a call that goes now, before its state word says so.

        Returns the slots that were held and need not be any more: it pays for them, too.
        """
        q, limiters = self._q, self._limiters
        is_paid = q[own + W_BUDGET] & PAID
        us, answer = self._average(own)
        settles = 0
        for at in self.rows_of(own):
            limiters.renew(at, now_ns)
            if not is_paid:
                limiters.charge(at, CALLS, 1)
                limiters.charge(at, BYTES, self._bytes(own, at, answer))
            limiters.charge(at, HANDLER, us)
            q[at + L_OPENS] = limiters.opens_ns(at)
            settles |= q[at + L_FLAGS] & SETTLES
        paid = [] if is_paid else self._pay_batch(own)
        if settles:
            # A PAID one reserves no bytes: those of its batch were charged with the head.
            reserved = 0 if is_paid else answer
            look_closer(q, own)
            q[own + W_BUDGET] = us << US_SHIFT | reserved << BYTES_SHIFT | is_paid | RESERVED
            for at in self.rows_of(own):
                q[at + L_RUNNING] += 1
        else:
            q[own + W_BUDGET] = 0
        return paid

    def charge_dropped(self, own: int, now_ns: int) -> None:
        """A call that waits is about to be withdrawn: its dispatch, and the request's bytes.

        The head of a batch that counts as one pays for the others; these go in their turn still.
        """
        q, limiters = self._q, self._limiters
        if q[own + W_BUDGET] & PAID:
            return
        for at in self.rows_of(own):
            limiters.renew(at, now_ns)
            limiters.charge(at, CALLS, 1)
            limiters.charge(at, BYTES, self._bytes(own, at, 0))
            q[at + L_OPENS] = limiters.opens_ns(at)
        self._pay_batch(own)

    def expected(self, own: int, row: int, *, is_paid: bool) -> tuple[int, int]:
        """(bytes, handler microseconds) that a call will be charged by limiter `row`."""
        us, answer = self._average(own)
        return 0 if is_paid else self._bytes(own, self._limiters.at(row), answer), us

    def _bytes(self, own: int, at: int, answer: int) -> int:
        if not self._q[at + L_LIMIT + BYTES]:
            return 0
        flags = self._q[at + L_FLAGS]
        counted = answer if flags & ANSWER else 0
        return counted + (self._asked(own) if flags & REQUEST else 0)

    def _asked(self, own: int) -> int:
        """Request bytes of a call, or of its whole batch if it is the head."""
        q = self._q
        return sum(q[each + W_REQUEST] >> 32 for each in (own, *self.behind(own)))

    def _average(self, own: int) -> tuple[int, int]:
        word = self._limiters.average((self._q[own + W_CALL] & _LOW) + 1)
        return (word >> US_SHIFT, (word & _LOW) - 1) if word else (0, 0)

    def _pay_batch(self, head: int) -> list[int]:
        """The head is charged: the others of its batch need not be; the slots of those held."""
        q, held = self._q, []
        for own in self.behind(head):
            state = q[own] & states.STATE_MASK
            if state not in (states.FREE, QUEUED, HELD):
                break
            q[own + W_BUDGET] |= PAID
            if state == HELD:
                held.append((own - self._slot0) // SLOT_WORDS)
        return held

    def behind(self, own: int) -> list[int]:
        """Where the words of those begin that follow a call in its batch."""
        q, found = self._q, []
        while q[own + W_BATCH] and (own := self._following(own)):
            found.append(own)
        return found

    def _following(self, own: int) -> int:
        """Where the words of the next one of a batch begin; 0 if it is gone."""
        word = self._q[own + W_BATCH]
        following = self._slot0 + ((word & _LOW) - 1) * SLOT_WORDS
        return following if self._q[following] >> 32 == word >> 32 else 0

    # -- the index -------------------------------------------------------------------------------

    def rooms(self, row: int, now_ns: int) -> tuple[int, int, int]:
        """Calls, bytes and microseconds that a limiter may let go now."""
        at, limiters = self._limiters.at(row), self._limiters
        limiters.renew(at, now_ns)
        calls, size, us = (limiters.room(at, d, now_ns) for d in EACH)
        opened = self._q[at + L_OPENED]
        if opened and min(size, us) < MOST_ROOM:
            return 0, 0, 0  # what those on their way will use is not known
        return min(calls, limiters.free(at)) - opened, size, us

    def free(self, row: int) -> int:
        """Calls that a limiter may let go as far as those are concerned that run at once."""
        at = self._limiters.at(row)
        return self._limiters.free(at) - self._q[at + L_OPENED]

    def rebuild(self, queued: Slots, levels: Slots, held: Slots, running: Slots) -> None:
        """`opened`, `running` and `opens_ns` of all limiters, from the words of the slots that are
        QUEUED, at these levels, of those that are HELD, and of those that are claimed."""
        limiters = self._limiters
        if self._q[limiters.changed_word]:
            limiters.changes()
        words = self._words
        named = words[queued, W_LIMITERS] != 0
        by = words[queued[named], W_HELD_BY].astype(np.intp)
        self._held.counts_of(by[by > 0] - 1, levels[named][by > 0])
        paid = held[words[held, W_BUDGET] & np.uint64(PAID) != 0]
        words[paid, W_TURN] = FIRST
        settles = running[words[running, W_BUDGET] & np.uint64(RESERVED | COUNTED) != 0]
        rows = self.named_by(settles)
        limiters.rows[:, L_RUNNING] = np.bincount(rows, minlength=limiters.count).astype(np.uint64)
        for row in limiters.used_rows():
            at = limiters.at(row)
            self._q[at + L_OPENS] = limiters.opens_ns(at)

    def named_by(self, slots: Slots | None = None) -> Slots:
        """The limiter rows that `slots` name, as often as they do; of all slots by default."""
        named = table_of(self._words if slots is None else self._words[slots])
        rows: Slots = named[named > 0] - 1
        return rows

    def rows_of(self, own: int) -> tuple[int, ...]:
        """Where the words of each limiter of a call begin."""
        word = self._q[own + W_LIMITERS]
        if word & MORE:
            return self._rows_from(numbers_of(self._q, own))
        rows = self._rows.get(word)
        if rows is None:
            if len(self._rows) >= MOST_KEPT:
                self._rows.clear()
            rows = self._rows[word] = self._rows_from(numbers_in(word))
        return rows

    def _rows_from(self, numbers: list[int]) -> tuple[int, ...]:
        return tuple(self._row0 + number * LIMITER_WORDS for number in numbers)
