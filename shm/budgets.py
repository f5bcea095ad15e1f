"""Whether a call may be dispatched, and what it is charged: the limiters of a slot, all together.

A call may go when all its limiters are open; it is then charged to all of them, before its state
word says that it runs; one that is held charges none. Calls and bytes of the request are known by
then. Handler time and bytes of the answer are reserved at the method's average, and settled when
the call has ended, before it is published:

    used of each limiter      the difference
    the slot's `budget`       0: settled

So who dies in between leaves too much charged, never too little: the janitor adds what a complete
answer lacks (`settle_dead`), and gives nothing back. What was reserved too much comes back only in
the period in which it was charged: what a renewal has paid is not given away again.

A method that never ran has no average: where its handler time is limited, one call at a time goes
through its row (LEARNS) until the first is settled.

Where a batch counts as one call, its head is charged for all, and marks the others PAID; they go
without a look at any limit but that of running calls. Each slot names the next of its batch, with
its generation, so that a call which was given up meanwhile ends the marking: what comes behind it
is charged by itself.

    budget    microseconds << 32 | answer bytes << 3 | AGAIN | PAID | RESERVED

AGAIN: it was claimed before, and returned because its handler died; it overtakes nobody.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..scheduling.dispatch_estimates import next_average
from . import states
from .held import LIMITER_SLOT_WORDS, W_HELD_BY, W_LIMITERS, HeldCalls
from .layout import SLOT, WORD, word_of
from .limiters import (
    ANSWER,
    BYTES,
    CALLS,
    DRY_RUN,
    EACH,
    HANDLER,
    IN_ORDER,
    L_CHANGED,
    L_EVENTS,
    L_FLAGS,
    L_HELD,
    L_LIMIT,
    L_OPENED,
    L_OPENS,
    L_PERIOD,
    L_RUNNING,
    MOST_ROOM,
    REFUSED,
    REQUEST,
    RUNNING_CAP,
    SETTLES,
    Limiters,
)
from .rings import SLOT_WORDS, W_CALL, Slots
from .segment import Segment
from .states import HELD, QUEUED

W_BATCH, W_BUDGET, W_CLAIMED, W_REQUEST, W_DEADLINE = (
    word_of(SLOT, name) for name in ("batch", "budget", "claimed_ns", "request", "deadline_ns")
)
RESERVED, PAID, AGAIN = 1, 2, 4
BYTES_SHIFT, BYTES_MOST = 3, (1 << 29) - 1
US_SHIFT, US_MOST = 32, (1 << 31) - 1
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
        self.reason = 0  # why the last call was blocked

    # -- before a call goes ----------------------------------------------------------------------

    def opens_ns(self, own: int) -> int:
        """When all limiters of a call are open; reads words, and may be asked without the lock."""
        q = self._q
        rows = (at for at in self._rows(own) if not q[at + L_FLAGS] & DRY_RUN)
        return max((q[at + L_OPENS] for at in rows), default=0)

    def refuses(self, own: int) -> bool:
        """Whether a limiter opens too late for the call; counted as its doing."""
        q, deadline_ns = self._q, self._q[own + W_DEADLINE]
        for at in self._rows(own):
            if q[at + L_OPENS] >= deadline_ns and not q[at + L_FLAGS] & DRY_RUN:
                q[at + L_EVENTS + REFUSED] += 1
                return True
        return False

    def blocker(self, own: int, now_ns: int) -> int:
        """The limiter row that is to hold a call; -1 if none does.

        It is the one that keeps it longest; or one that holds calls of its key already, which a
        new call does not overtake.
        """
        q, found, until, full, joins = self._q, 0, now_ns, 0, 0
        is_paid = q[own + W_BUDGET] & PAID
        is_new = not q[own + W_HELD_BY] and not q[own + W_BUDGET] & AGAIN
        for at in self._rows(own):
            is_full = self._limiters.is_full(at)
            closed = not is_paid and q[at + L_OPENS] > now_ns
            if q[at + L_FLAGS] & DRY_RUN:
                if closed or is_full:
                    self._count(at, is_full, now_ns)
                continue
            if is_full and not full:
                full = at
            if closed and q[at + L_OPENS] > until:
                found, until = at, q[at + L_OPENS]
            if is_new and not joins and not is_paid and (q[at + L_HELD] or q[at + L_OPENED]):
                joins = at
        at = full or found or joins
        if not at:
            return -1
        if full or found:
            self._count(at, bool(full), now_ns)
        else:
            q[at + L_EVENTS + IN_ORDER] += 1
        return (at - self._limiters.first) // self._limiters.stride

    def _count(self, at: int, is_full: bool, now_ns: int) -> None:
        reason = RUNNING_CAP
        if not is_full:
            self._limiters.renew(at, now_ns)
            shut = [d for d in EACH if not self._limiters.room(at, d, now_ns)]
            reason = shut[0] if shut else CALLS
        self._q[at + L_EVENTS + reason] += 1

    # -- charging --------------------------------------------------------------------------------

    def charge(self, own: int, now_ns: int) -> list[int]:
        """All limiters of a call that goes now, before its state word says so.

        Returns the slots that were held and need not be any more: it pays for them, too.
        """
        q, limiters = self._q, self._limiters
        is_paid = q[own + W_BUDGET] & PAID
        us, answer = self._average(own)
        settles = 0
        for at in self._rows(own):
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
            q[own + W_BUDGET] = us << US_SHIFT | reserved << BYTES_SHIFT | is_paid | RESERVED
            for at in self._rows(own):
                q[at + L_RUNNING] += 1
        else:
            q[own + W_BUDGET] = 0
        return paid

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

    # -- settling --------------------------------------------------------------------------------

    def settle(self, own: int, us: int, answer: int, now_ns: int, *, ran: bool = True) -> None:
        """A call ended and used so much; `ran`: its method's averages learn from it.

        What never ran gives everything back but its dispatch.
        """
        q, limiters, word = self._q, self._limiters, self._q[own + W_BUDGET]
        if not word & RESERVED:
            return
        claimed_ns = q[own + W_CLAIMED]
        if ran:
            self._learn(own, min(us, US_MOST), min(answer, BYTES_MOST))
        for at in self._rows(own):
            limiters.renew(at, now_ns)
            self._adjust(at, HANDLER, us - (word >> US_SHIFT), claimed_ns, now_ns)
            if q[at + L_FLAGS] & ANSWER:
                reserved = (word & _LOW) >> BYTES_SHIFT
                self._adjust(at, BYTES, answer - reserved, claimed_ns, now_ns)
            q[at + L_RUNNING] -= min(1, q[at + L_RUNNING])
            q[at + L_OPENS] = limiters.opens_ns(at)
            self._held.look(at)
        q[own + W_BUDGET] = 0  # <- settled

    def settle_dead(self, own: int, us: int, answer: int, now_ns: int) -> None:
        """The same for a handler that died, and may have settled a part: nothing comes back."""
        word = self._q[own + W_BUDGET]
        reserved = (word & _LOW) >> BYTES_SHIFT
        self.settle(own, max(us, word >> US_SHIFT), max(answer, reserved), now_ns, ran=False)

    def _adjust(self, at: int, d: int, missing: int, claimed_ns: int, now_ns: int) -> None:
        if missing > 0:
            self._limiters.charge(at, d, missing)
        elif missing < 0 and self._is_of_this_period(at, claimed_ns, now_ns):
            self._limiters.give_back(at, d, -missing)

    def _is_of_this_period(self, at: int, claimed_ns: int, now_ns: int) -> bool:
        q, period_ns = self._q, self._q[at + L_PERIOD]
        if not period_ns or claimed_ns < q[at + L_CHANGED]:
            return False
        return claimed_ns // period_ns == now_ns // period_ns

    def _learn(self, own: int, us: int, answer: int) -> None:
        method = self._q[own + W_CALL] & _LOW
        word = self._limiters.average(method + 1)
        old_us, old_answer = (word >> US_SHIFT, (word & _LOW) - 1) if word else (None, None)
        average = next_average(old_us, us) << US_SHIFT | next_average(old_answer, answer) + 1
        self._limiters.set_average(method, average)

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

    def rebuild(self, queued: Slots, running: Slots) -> None:
        """`opened`, `running` and `opens_ns` of all limiters, from the slots' words."""
        limiters = self._limiters
        words = self._words
        named = words[queued, W_LIMITERS] != 0
        by = words[queued[named], W_HELD_BY].astype(np.intp)
        self._held.counts_of(by[by > 0] - 1)
        settles = running[words[running, W_BUDGET] & np.uint64(RESERVED) != 0]
        rows = self.named_by(settles)
        limiters.rows[:, L_RUNNING] = np.bincount(rows, minlength=limiters.count).astype(np.uint64)
        for row in limiters.used_rows():
            at = limiters.at(row)
            self._q[at + L_OPENS] = limiters.opens_ns(at)

    def named_by(self, slots: Slots | None = None) -> Slots:
        """The limiter rows that `slots` name, as often as they do; of all slots by default."""
        words = self._words if slots is None else self._words[slots]
        packed = words[:, W_LIMITERS : W_LIMITERS + LIMITER_SLOT_WORDS]
        both = np.concatenate((packed & np.uint64(_LOW), packed >> np.uint64(32)), axis=None)
        rows: Slots = both[both > 0].astype(np.intp) - 1
        return rows

    def _rows(self, own: int) -> list[int]:
        """Where the words of each limiter of a call begin."""
        q, rows, at = self._q, [], own + W_LIMITERS
        first, stride = self._limiters.first, self._limiters.stride
        for index in range(LIMITER_SLOT_WORDS):
            word = q[at + index]
            if word & _LOW:
                rows.append(first + ((word & _LOW) - 1) * stride)
            if word >> 32:
                rows.append(first + ((word >> 32) - 1) * stride)
        return rows
