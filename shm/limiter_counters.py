"""The counters of a limiter's row: what is used of its limits, and when it opens.

The arithmetic is `scheduling.dispatch_rate`, over the words of a row, which begin `at` some word.
Everything that changes them runs with the queue lock held. While the length of the period changes,
`period_ns` is 0: nobody renews, and who finds it so knows that `used` alone counts.
"""

from __future__ import annotations

from ..scheduling import dispatch_rate as rate
from .layout import LIMITER, METHOD, SHARD, WORD, word_of
from .segment import Segment
from .terms import CALLS, EACH, LEARNS, LEARNS_SHIFT, PACED

LIMITER_WORDS = LIMITER.itemsize // WORD
_L = {name: word_of(LIMITER, name) for name in LIMITER.names or ()}
L_KEY, L_CALLER, L_FLAGS, L_PERIOD = _L["key"], _L["caller"], _L["flags"], _L["period_ns"]
L_LIMIT, L_NEXT, L_USED = _L["limit"], _L["next_limit"], _L["used"]
L_CONFIGURED = _L["configured"]
L_CAP, L_DEBT, L_CHANGED = _L["running_limit"], _L["debt_periods"], _L["changed_ns"]
L_VERSION, L_LOOKED = _L["version"], _L["looked_ns"]
L_OPENS, L_RUNNING, L_HELD, L_OPENED = _L["opens_ns"], _L["running"], _L["held"], _L["opened"]
L_EVENTS, L_HELD_NS = _L["events"], _L["held_ns"]
L_WAITING, L_BACKLOG = _L["waiting"], _L["backlog"]
METHOD_WORDS, M_AVERAGE = METHOD.itemsize // WORD, word_of(METHOD, "average")

NONE = 0  # a limit word; any other is the limit + 1
MOST_ROOM = rate.MOST_LIMIT


class LimiterCounters:
    """Those of all rows, by where the words of one begin."""

    def __init__(self, segment: Segment) -> None:
        self.q = segment.q
        self._methods0 = segment.layout.methods // WORD + M_AVERAGE
        self.renewed_word = segment.word(segment.layout.shard, SHARD, "renewed_ns")

    def renew(self, at: int, now_ns: int) -> None:
        """Pay for the periods that have passed."""
        q, period_ns = self.q, self.q[at + L_PERIOD]
        if not period_ns:
            return
        period = now_ns // period_ns
        for d in EACH:
            limit, word = q[at + L_LIMIT + d], q[at + L_USED + d]
            if not limit or period <= word >> 32:
                continue
            self.begins(period * period_ns)
            following = q[at + L_NEXT + d]
            if limit == following:
                q[at + L_USED + d] = rate.renewed(word, period, limit - 1)
                continue
            if following < limit:
                q[at + L_LIMIT + d] = following
            q[at + L_USED + d] = rate.renewed_relative(word, period, limit - 1, following - 1)
            q[at + L_LIMIT + d] = following

    def begins(self, since_ns: int) -> None:
        """A limiter is renewed for the period that began then: nobody goes back behind that."""
        if since_ns > self.q[self.renewed_word]:
            self.q[self.renewed_word] = since_ns

    def opens_ns(self, at: int) -> int:
        """When it lets the next call through, unless more is charged."""
        q, latest, period_ns = self.q, 0, self.q[at + L_PERIOD]
        opening = rate.paced_opens_ns if q[at + L_FLAGS] & PACED else rate.opens_ns
        for d in EACH:
            limit, following = q[at + L_LIMIT + d], q[at + L_NEXT + d]
            if limit:
                word = q[at + L_USED + d]
                if limit != following and rate.used_of(word) >= limit - 1:
                    word, limit = rate.after_renewal(word, limit - 1), following
                latest = max(latest, opening(word, limit - 1, period_ns))
        return latest

    def room(self, at: int, d: int, now_ns: int) -> int:
        """Units of a dimension until it shuts; MOST_ROOM without a limit. For renewed words."""
        q = self.q
        limit, word = q[at + L_LIMIT + d], q[at + L_USED + d]
        if not limit:
            return MOST_ROOM
        if q[at + L_FLAGS] & PACED and q[at + L_PERIOD]:
            return rate.paced_room(word, limit - 1, q[at + L_PERIOD], now_ns)
        return rate.room(word, limit - 1)

    def goes_before(self, at: int, until_ns: int, now_ns: int) -> int:
        """How many calls it lets go before a time, as far as calls are limited; MOST_ROOM without a
        limit. Reads words, and may be asked without the lock."""
        q = self.q
        if q[at + L_OPENS] >= until_ns:
            return 0
        limit, period_ns = q[at + L_LIMIT + CALLS] - 1, q[at + L_PERIOD]
        if limit < 0 or not period_ns:
            return MOST_ROOM
        word = rate.renewed(q[at + L_USED + CALLS], now_ns // period_ns, limit)
        periods = (until_ns - 1) // period_ns - rate.period_of(word) + 1
        return max(0, periods * limit - rate.used_of(word))

    def charge(self, at: int, d: int, amount: int) -> None:
        """Add to what is used of a limit; for renewed words."""
        q = self.q
        limit = q[at + L_LIMIT + d]
        if limit and amount > 0:
            word = rate.charged(q[at + L_USED + d], amount)
            if q[at + L_DEBT]:
                word = rate.capped(word, limit - 1, q[at + L_DEBT] - 1)
            q[at + L_USED + d] = word

    def give_back(self, at: int, d: int, amount: int) -> None:
        """Take from what is used of a limit; for renewed words."""
        self.q[at + L_USED + d] = rate.refunded(self.q[at + L_USED + d], amount)

    def is_full(self, at: int) -> bool:
        """Whether it opens only when a running call is settled."""
        q = self.q
        running = q[at + L_RUNNING]
        if not running:
            return False
        if 0 < q[at + L_CAP] <= running:
            return True
        flags = q[at + L_FLAGS]
        return bool(flags & LEARNS) and not self.average(flags >> LEARNS_SHIFT)

    def free(self, at: int) -> int:
        """How many more calls may run at once; MOST_ROOM without a cap."""
        q, running = self.q, self.q[at + L_RUNNING]
        if self.is_full(at):
            return 0
        flags = q[at + L_FLAGS]
        if flags & LEARNS and not self.average(flags >> LEARNS_SHIFT):
            return 1
        return q[at + L_CAP] - running if q[at + L_CAP] else MOST_ROOM

    def average(self, method_and_one: int) -> int:
        """The `average` word of a method."""
        return self.q[self._methods0 + (method_and_one - 1) * METHOD_WORDS]

    def set_average(self, method: int, word: int) -> None:
        self.q[self._methods0 + method * METHOD_WORDS] = word
