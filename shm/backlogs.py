"""Who has a backlog: calls of a method and a caller that wait, counted where that decides.

Where callers without a backlog are not limited (Pulsar: dispatchThrottlingOnNonBacklogConsumer-
Enabled = false), a reader marks the calls that it stages COUNTED, and lets their last limiter be
that of method and caller, with limits or without. While such a call is QUEUED or HELD it counts in
that row:

    waiting    |calls QUEUED and HELD that are COUNTED and name the row last|
    backlog    1 from more than BACKLOG of them on, until there is none

Without a backlog a call is neither refused nor held when it comes, and is not charged when it is
claimed, nor at its end. It waits only where nothing but the end of a running call makes room: held
as those that are paid for, and counted among those that run. A limiter that is blocked blocks it.

A claim takes the mark away, but where the call counts among those that run; so one that comes back
because its handler died is limited like any other. `waiting` is an index of the slots' words, from
which a rebuild derives it. Everything here runs with the queue lock held.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..scheduling.dispatch_rate import NEVER_NS
from ..scheduling.dispatch_settings import has_backlog
from .budgets import COUNTED, PAID, Budgets
from .held import HeldCalls
from .limiter_counters import L_BACKLOG, L_FLAGS, L_OPENS, L_RUNNING, L_WAITING
from .limiters import Limiters
from .rings import Slots
from .segment import Segment
from .slot_limiters import W_BUDGET, W_HELD_BY, look_closer, table_of
from .terms import DRY_RUN, SETTLES

BACKLOG = 1  # calls; one more is a backlog


class Backlogs:
    """Of calls that are COUNTED, by where their slot's words begin."""

    def __init__(
        self,
        segment: Segment,
        slot_words: npt.NDArray[np.uint64],
        limiters: Limiters,
        held: HeldCalls,
        budgets: Budgets,
    ) -> None:
        self._q, self._words = segment.q, slot_words
        self._limiters, self._held, self._rows_of = limiters, held, budgets.rows_of

    def lets_wait(self, own: int) -> bool:
        """Whether a call that comes goes free, as there is no backlog with it, either."""
        q, rows = self._q, self._rows_of(own)
        at = rows[-1]
        if has_backlog(bool(q[at + L_BACKLOG]), q[at + L_WAITING] + 1, BACKLOG):
            return False
        return not self._is_blocked(rows)

    def _is_blocked(self, rows: tuple[int, ...]) -> bool:
        """Whether one of these limiters lets nobody through, ever."""
        q = self._q
        return any(q[at + L_OPENS] >= NEVER_NS and not q[at + L_FLAGS] & DRY_RUN for at in rows)

    def there_is(self, own: int) -> bool:
        """Whether the method and caller of a waiting call have a backlog."""
        return bool(self._q[self._rows_of(own)[-1] + L_BACKLOG])

    def arrives(self, own: int) -> None:
        """The call waits from now on."""
        self._count(self._rows_of(own)[-1], 1)

    def leaves(self, own: int) -> None:
        """The call does not wait any more."""
        self._count(self._rows_of(own)[-1], -1)

    def _count(self, at: int, more: int) -> None:
        q = self._q
        q[at + L_WAITING] = waiting = q[at + L_WAITING] + more
        q[at + L_BACKLOG] = has_backlog(bool(q[at + L_BACKLOG]), waiting, BACKLOG)

    def lets_go(self, own: int) -> bool:
        """Whether a call that was drawn runs now, uncharged: its caller has no backlog.

        One that has none, and waits for the end of a running call, is PAID.
        """
        q, rows, limiters = self._q, self._rows_of(own), self._limiters
        if q[rows[-1] + L_BACKLOG] or self._is_blocked(rows):
            return False
        if any(limiters.is_full(at) and not q[at + L_FLAGS] & DRY_RUN for at in rows):
            q[own + W_BUDGET] |= PAID
            return False
        if q[own + W_HELD_BY]:
            at = limiters.at(q[own + W_HELD_BY] - 1)
            q[at + L_OPENS] = limiters.opens_ns(at)  # it was renewed when it let the call go
            self._held.drawn(own)
        self._count(rows[-1], -1)
        if any(q[at + L_FLAGS] & SETTLES for at in rows):
            q[own + W_BUDGET] = COUNTED
            for at in rows:
                q[at + L_RUNNING] += 1
        else:
            q[own + W_BUDGET] = 0
        return True

    def unmark(self, own: int) -> None:
        """A waiting call is limited from now on, whatever its caller has waiting."""
        self.leaves(own)
        self._q[own + W_BUDGET] &= ~COUNTED

    def mark(self, own: int) -> None:
        """A waiting call, whose last limiter is that of its method and caller, is COUNTED."""
        look_closer(self._q, own)
        self._q[own + W_BUDGET] |= COUNTED
        self.arrives(own)

    # -- the index -------------------------------------------------------------------------------

    def counts_of(self, waiting: Slots) -> npt.NDArray[np.uint64]:
        """`waiting` of all limiters, from the words of all slots that are QUEUED or HELD."""
        words = self._words[waiting]
        words = words[words[:, W_BUDGET] >= np.uint64(COUNTED)]
        named = table_of(words)
        last = (named > 0).sum(axis=1)  # they are named without a gap
        rows = named[last > 0, last[last > 0] - 1] - 1
        return np.bincount(rows, minlength=self._limiters.count).astype(np.uint64)

    def rebuild(self, waiting: Slots) -> None:
        """Derive `waiting` and `backlog` of all limiters from the words of these slots."""
        rows, counts = self._limiters.rows, self.counts_of(waiting)
        backlogs = (counts > BACKLOG) | ((rows[:, L_BACKLOG] > 0) & (counts > 0))
        rows[:, L_WAITING], rows[:, L_BACKLOG] = counts, backlogs
