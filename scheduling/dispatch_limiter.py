"""The counters of one key under one rate (Pulsar: `DispatchRateLimiter`), over `dispatch_rate`.

    word[d], total[d]     one word and one total per dimension: calls, bytes, handler microseconds
    in_force[d]           the limit of this period; the configured one unless the rate is relative
    running               calls taken and not settled yet

Whatever happens, the words are renewed first, with the limit in force. The gate is open when it is
for every dimension, and `running` is below its cap. Order of stores, for counters in shared memory:
total before word, so that who dies in between can only have overcharged.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import dispatch_rate as arithmetic
from .dispatch_policies import BYTES, CALLS, HANDLER, Rate
from .dispatch_rate import NONE

DIMENSIONS = range(3)
SETTLES_NS = arithmetic.NEVER_NS - 1
"""The opening of what opens when a running call is settled, which is no time."""


class Limiter:
    """The counters of a key; `now_ns` never goes back, and does no harm if it does."""

    __slots__ = (
        "_average",
        "_in_force",
        "_limits",
        "_opening",
        "_paced",
        "_period_ns",
        "_totals",
        "_words",
        "rate",
        "running",
    )

    def __init__(self, rate: Rate, now_ns: int, *, paced: bool = False) -> None:
        self.rate, self.running = rate, 0
        self._limits, self._period_ns = rate.limits, rate.period_ns
        self._in_force, self._average = list(self._limits), [0.0, 0.0, 0.0]
        self._words = [arithmetic.pack(now_ns // self._period_ns, 0) for _ in DIMENSIONS]
        self._totals = [0, 0, 0]
        self._paced = paced
        self._opening = arithmetic.paced_opens_ns if paced else arithmetic.opens_ns

    def apply(self, rate: Rate, now_ns: int) -> None:
        """Puts another rate in force at once; the same one again changes nothing."""
        self.renew(now_ns)
        if rate == self.rate:
            return
        limits, period_ns = rate.limits, rate.period_ns
        for d in DIMENSIONS:
            self._words[d] = arithmetic.changed(
                self._words[d], now_ns, self._in_force[d], self._period_ns, limits[d], period_ns
            )
        self.rate, self._limits, self._period_ns = rate, limits, period_ns
        self._in_force = list(limits)

    def averaged(self, average: Sequence[float], now_ns: int) -> None:
        """Average arrivals per period, shape (2,): calls, bytes. Counts from the next renewal on.

        A renewal at `now_ns` itself takes the new average.
        """
        self.renew(now_ns - 1)
        self._average[CALLS], self._average[BYTES] = average

    def renew(self, now_ns: int) -> None:
        """Pays for the periods that have passed."""
        period = now_ns // self._period_ns
        for d in DIMENSIONS:
            word = self._words[d]
            if period > arithmetic.period_of(word):
                limit, following = self._in_force[d], self._following(d)
                self._words[d] = arithmetic.renewed_relative(word, period, limit, following)
                self._in_force[d] = following

    def opens_ns(self, now_ns: int) -> int:
        """When the gate is open, if nobody else uses the quota: at most `now_ns` if it is now.

        SETTLES_NS when that depends on a running call, NEVER_NS when the key is blocked.
        """
        self.renew(now_ns)
        latest = SETTLES_NS if self.is_full() else 0
        for d in DIMENSIONS:
            latest = max(latest, self._opens_ns(d))
        return latest

    def room(self, dimension: int, now_ns: int) -> int:
        """Units of a dimension until the gate shuts; MOST_LIMIT without a limit."""
        self.renew(now_ns)
        word, limit = self._words[dimension], self._in_force[dimension]
        if self._paced:
            return arithmetic.paced_room(word, limit, self._period_ns, now_ns)
        return arithmetic.room(word, limit)

    def used(self, dimension: int, now_ns: int) -> int:
        """The units charged in this period, with the debt of those before."""
        self.renew(now_ns)
        return arithmetic.used_of(self._words[dimension])

    def is_full(self) -> bool:
        """Whether as many calls run as may run at once."""
        return 0 < self.rate.running <= self.running

    @property
    def limits_handler(self) -> bool:
        """Whether handler time is limited."""
        return self._limits[HANDLER] != NONE

    def is_idle(self, now_ns: int) -> bool:
        """Whether a new counter would be the same: nothing used, nothing running."""
        return not self.running and not any(self.used(d, now_ns) for d in DIMENSIONS)

    def charge(self, amounts: Sequence[int], now_ns: int) -> tuple[int, int, int]:
        """Charges calls, bytes and microseconds, whatever the gate says; the new totals."""
        self.renew(now_ns)
        for d in DIMENSIONS:
            if self._in_force[d] != NONE:
                self._charge(d, amounts[d])
        return self._totals[CALLS], self._totals[BYTES], self._totals[HANDLER]

    def settle(
        self,
        reserved: Sequence[int],
        actual: Sequence[int],
        positions: Sequence[int],
        now_ns: int,
    ) -> None:
        """Charges what `reserved` lacks of `actual`, or gives back what no renewal has paid."""
        self.renew(now_ns)
        for d in DIMENSIONS:
            missing = actual[d] - reserved[d]
            if self._in_force[d] == NONE or not missing:
                continue
            if missing > 0:
                self._charge(d, missing)
            else:
                word, total = self._words[d], self._totals[d]
                unpaid = arithmetic.refundable(word, total, positions[d], -missing)
                self._words[d] = arithmetic.refunded(word, unpaid)

    def _charge(self, d: int, amount: int) -> None:
        self._totals[d] += amount
        word = arithmetic.charged(self._words[d], amount)
        if self.rate.max_debt_periods is not None:
            word = arithmetic.capped(word, self._in_force[d], self.rate.max_debt_periods)
        self._words[d] = word

    def _opens_ns(self, d: int) -> int:
        word, limit, following = self._words[d], self._in_force[d], self._following(d)
        if limit != following and arithmetic.used_of(word) >= limit:
            word, limit = arithmetic.after_renewal(word, limit), following
        return self._opening(word, limit, self._period_ns)

    def _following(self, d: int) -> int:
        configured = self._limits[d]
        if not self.rate.relative or d == HANDLER or configured <= 0:
            return configured
        return arithmetic.relative_limit(configured, self._average[d])
