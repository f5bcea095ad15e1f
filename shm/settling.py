"""What an ended call used takes the place of what was reserved for it (`budgets`).

What was reserved too much comes back only in the period in which it was charged: what a renewal has
paid is not given away again.
"""

from __future__ import annotations

from ..scheduling.dispatch_estimates import next_average
from .budgets import (
    BYTES_MOST,
    BYTES_SHIFT,
    COUNTED,
    RESERVED,
    US_MOST,
    US_SHIFT,
    W_CLAIMED,
    Budgets,
)
from .held import HeldCalls
from .limiter_counters import L_CHANGED, L_FLAGS, L_OPENS, L_PERIOD, L_RUNNING
from .limiters import Limiters
from .rings import W_CALL
from .segment import Segment
from .slot_limiters import W_BUDGET
from .terms import ANSWER, BYTES, HANDLER

_LOW = 0xFFFF_FFFF


class Settling:
    """Of calls by where their slot's words begin; everything with the queue lock held."""

    def __init__(
        self, segment: Segment, limiters: Limiters, held: HeldCalls, budgets: Budgets
    ) -> None:
        self._q, self._limiters, self._held = segment.q, limiters, held
        self._rows_of = budgets.rows_of

    def settle(self, own: int, us: int, answer: int, now_ns: int, *, ran: bool = True) -> None:
        """A call ended and used so much; `ran`: its method's averages learn from it.

        What never ran gives everything back but its dispatch.
        """
        q, limiters, word = self._q, self._limiters, self._q[own + W_BUDGET]
        if not word & RESERVED:
            if word >= COUNTED:
                self._end_uncharged(own, us, answer, ran)
            return
        claimed_ns = q[own + W_CLAIMED]
        if ran:
            self._learn(own, min(us, US_MOST), min(answer, BYTES_MOST))
        for at in self._rows_of(own):
            limiters.renew(at, now_ns)
            self._adjust(at, HANDLER, us - (word >> US_SHIFT), claimed_ns, now_ns)
            if q[at + L_FLAGS] & ANSWER:
                reserved = (word & _LOW) >> BYTES_SHIFT
                self._adjust(at, BYTES, answer - reserved, claimed_ns, now_ns)
            q[at + L_RUNNING] -= min(1, q[at + L_RUNNING])
            q[at + L_OPENS] = limiters.opens_ns(at)
            self._held.look(at)
        q[own + W_BUDGET] = 0  # <- settled

    def _end_uncharged(self, own: int, us: int, answer: int, ran: bool) -> None:
        """A call ended that ran without being charged: it only counted among those that run."""
        q = self._q
        if ran:
            self._learn(own, min(us, US_MOST), min(answer, BYTES_MOST))
        for at in self._rows_of(own):
            q[at + L_RUNNING] -= min(1, q[at + L_RUNNING])
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
