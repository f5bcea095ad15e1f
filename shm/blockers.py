"""Which limiters keep a call from going: asked when it comes, while it waits, and at its claim.

Nothing is charged here (`budgets`); what a limiter did is counted in its row.
"""

from __future__ import annotations

from ..scheduling import dispatch_rate as rate
from .backlogs import Backlogs
from .budgets import AGAIN, COUNTED, PAID, W_DEADLINE, Budgets
from .limiter_counters import L_EVENTS, L_FLAGS, L_HELD, L_OPENED, L_OPENS
from .limiters import Limiters
from .segment import Segment
from .slot_limiters import W_BUDGET, W_HELD_BY
from .terms import CALLS, DRY_RUN, EACH, IN_ORDER, REFUSED, RUNNING_CAP

# What `stops` says beside a row.
NOBODY, REFUSES, COUNTS = -1, -2, -3


class Blockers:
    """Of calls by where their slot's words begin; with the queue lock held, but for `opens_ns`."""

    def __init__(
        self, segment: Segment, limiters: Limiters, budgets: Budgets, backlogs: Backlogs
    ) -> None:
        self._q, self._limiters, self._backlogs = segment.q, limiters, backlogs
        self._budgets, self._rows_of = budgets, budgets.rows_of

    def opens_ns(self, own: int) -> int:
        """When all limiters of a call are open; reads words, and may be asked without the lock."""
        q = self._q
        rows = (at for at in self._rows_of(own) if not q[at + L_FLAGS] & DRY_RUN)
        return max((q[at + L_OPENS] for at in rows), default=0)

    def lets_wait_after_ns(self, own: int) -> int:
        """No limiter of a call with a later deadline `stops` it.

        Reads words, and may be asked without the lock: what has changed until the call is offered,
        its claim sees.
        """
        q, until_ns = self._q, 0
        for at in self._rows_of(own):
            if not q[at + L_FLAGS] & DRY_RUN:
                if q[at + L_HELD]:
                    return rate.NEVER_NS
                until_ns = max(until_ns, q[at + L_OPENS])
        return until_ns

    def stops(self, own: int) -> int:
        """What a new call may not pass by: the limiter row that holds others of its key, with which
        it is held at once, so that nobody has to look at it before that row opens; or else NOBODY.

        REFUSES: a limiter opens too late for it; counted as its doing. COUNTS: it waits whatever
        they say, as its caller has no backlog with it, either; or none of them says anything.
        """
        q, deadline_ns, found = self._q, self._q[own + W_DEADLINE], NOBODY
        if q[own + W_BUDGET] >= COUNTED:
            found = COUNTS
            if self._backlogs.lets_wait(own):
                return COUNTS
        for at in self._rows_of(own):
            if not q[at + L_FLAGS] & DRY_RUN:
                if q[at + L_OPENS] >= deadline_ns:
                    q[at + L_EVENTS + REFUSED] += 1
                    return REFUSES
                if found < 0 and q[at + L_HELD]:
                    found = (at - self._limiters.first) // self._limiters.stride
        return found

    def blocker(self, own: int, now_ns: int) -> int:
        """The limiter row that is to hold a call; -1 if none does.

        It is the one that keeps it longest; or one that holds calls of its key already, which a
        new call does not overtake.
        """
        q, until = self._q, now_ns
        found = full = joins = 0
        is_paid = q[own + W_BUDGET] & PAID
        is_new = not q[own + W_HELD_BY] and not q[own + W_BUDGET] & AGAIN
        for at in self._rows_of(own):
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

    def is_new(self, own: int) -> bool:
        """Whether no limiter has held the call, nobody has claimed it, and its batch's head has not
        paid for it."""
        q = self._q
        return not q[own + W_HELD_BY] and not q[own + W_BUDGET] & (AGAIN | PAID)

    def counts(self, row: int, reason: int) -> None:
        """One more event of limiter `row`."""
        self._q[self._limiters.at(row) + L_EVENTS + reason] += 1

    def counts_join(self, row: int, now_ns: int) -> None:
        """A call is held with others of its key: for the limiter's own reason, if it has one."""
        q, at = self._q, self._limiters.at(row)
        is_full = self._limiters.is_full(at)
        if is_full or q[at + L_OPENS] > now_ns:
            self._count(at, is_full, now_ns)
        else:
            q[at + L_EVENTS + IN_ORDER] += 1

    def _count(self, at: int, is_full: bool, now_ns: int) -> None:
        reason = RUNNING_CAP
        if not is_full:
            self._limiters.renew(at, now_ns)
            room = self._limiters.room
            reason = next((d for d in EACH if not room(at, d, now_ns)), CALLS)
        self._q[at + L_EVENTS + reason] += 1
