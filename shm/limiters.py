"""The budgets' rows: a bounded table of keys, each with its limits (`terms`) and what is used.

Everything that changes a row runs with the queue lock held. `key` is stored last when a row is
made. A row is given away only if a new one would be the same (nothing used, nothing held, nothing
running) and no slot names it: a debt is never forgotten. Who keeps a row's number stores it in its
slot first, and then looks whether the key is still its own (`is_key`); `looked_ns` keeps the row
for as long as that takes.

A change of limits pays with the old ones first, and keeps what is used.
"""

from __future__ import annotations

import numpy as np

from ..scheduling import dispatch_rate as rate
from .layout import SHARD, WORD
from .limiter_counters import (
    L_CALLER,
    L_CAP,
    L_CHANGED,
    L_CONFIGURED,
    L_DEBT,
    L_FLAGS,
    L_HELD,
    L_KEY,
    L_LIMIT,
    L_LOOKED,
    L_NEXT,
    L_OPENED,
    L_OPENS,
    L_PERIOD,
    L_RUNNING,
    L_USED,
    L_VERSION,
    LIMITER_WORDS,
    NONE,
    LimiterCounters,
)
from .rings import Slots
from .segment import Segment
from .terms import BYTES, CALLS, EACH, PLAIN, RELATIVE, SETTLES, Terms

KEPT_NS = 1_000_000_000  # a row that was named so lately is not given away
LOOKED_AT_ONCE = 128  # rows, for one to be given away


class Limiters(LimiterCounters):
    """The rows, by number; `at(row)` is where the words of one begin."""

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment)
        g, layout = segment.geometry, segment.layout
        self.count, self.stride = g.limiters, LIMITER_WORDS
        self.first = layout.limiters // WORD
        self.rows = segment.words(layout.limiters, g.limiters * LIMITER_WORDS).reshape(
            -1, LIMITER_WORDS
        )
        self.changed_word = segment.word(layout.shard, SHARD, "limiters_changed")
        self._next_looked = 0  # where `give_away` goes on

    def at(self, row: int) -> int:
        return self.first + row * LIMITER_WORDS

    def changes(self) -> None:
        """A row is about to get other terms, or the first call that it holds: what anybody knows
        of any by memory is outdated (`plain_charges`)."""
        self.q[self.changed_word] += 1

    # -- finding and making ----------------------------------------------------------------------

    def find(self, key: int, caller: int = 0) -> int:
        """The row of a key; -1 if it has none."""
        found = np.flatnonzero((self.rows[:, L_KEY] == key) & (self.rows[:, L_CALLER] == caller))
        return int(found[0]) if len(found) else -1

    def is_key(self, row: int, key: int, caller: int) -> bool:
        """Whether `row` is that of a key, at this moment."""
        at = self.first + row * LIMITER_WORDS
        return self.q[at + L_KEY] == key and self.q[at + L_CALLER] == caller

    def used_rows(self) -> list[int]:
        """The rows that have a key."""
        return [int(row) for row in np.flatnonzero(self.rows[:, L_KEY])]

    def callers(self) -> int:
        """How many rows are those of one caller."""
        return int(np.count_nonzero(self.rows[:, L_CALLER]))

    def make(
        self, key: int, caller: int, terms: Terms, version: int, since_ns: int, now_ns: int
    ) -> int:
        """A new row, as if it had been there `since_ns`; -1 if none is free (queue lock held)."""
        free = np.flatnonzero(self.rows[:, L_KEY] == 0)
        if not len(free):
            return -1
        self.changes()
        row = int(free[0])
        q, at = self.q, self.at(row)
        self.rows[row] = 0
        q[at + L_CALLER] = caller
        for d in EACH:
            self._put_limit(at, d, terms.limits[d] + 1)
            q[at + L_USED + d] = rate.pack(since_ns // terms.period_ns, 0)
        q[at + L_PERIOD] = terms.period_ns
        q[at + L_CHANGED] = since_ns
        self._put_terms(at, terms, version)
        q[at + L_LOOKED] = now_ns
        q[at + L_KEY] = key  # <- the row exists
        return row

    def give_away(self, named: Slots, now_ns: int, *, anybodys: bool = False) -> int:
        """Free rows of callers that a new one would not differ from; how many (queue lock held).

        `named` are the rows that slots name, staged ones too. `anybodys`: rows of no caller, too.
        One call looks at LOOKED_AT_ONCE rows at most, the next one at those behind them.
        """
        first, freed = self._next_looked if self._next_looked < self.count else 0, 0
        self._next_looked = first + LOOKED_AT_ONCE
        rows = self.rows[first : first + LOOKED_AT_ONCE]
        theirs = rows[:, L_KEY] != 0 if anybodys else rows[:, L_CALLER] != 0
        idle = theirs & (rows[:, L_LOOKED] + np.uint64(KEPT_NS) <= now_ns)
        idle &= ~rows[:, [L_HELD, L_OPENED, L_RUNNING]].any(axis=1)
        idle[named[(named >= first) & (named < first + len(rows))] - first] = False
        for row in (np.flatnonzero(idle) + first).tolist():
            if self.is_idle(row, now_ns):
                self.q[self.at(row) + L_KEY] = 0  # <- free
                self.q[self.at(row) + L_CALLER] = 0
                freed += 1
        return freed

    def is_idle(self, row: int, now_ns: int) -> bool:
        """Whether a new row would be the same (queue lock held)."""
        q, at = self.q, self.at(row)
        self.renew(at, now_ns)
        busy = q[at + L_HELD] or q[at + L_OPENED] or q[at + L_RUNNING]
        return not busy and not any(q[at + L_USED + d] & 0xFFFF_FFFF for d in EACH)

    # -- terms -----------------------------------------------------------------------------------

    def apply(self, row: int, terms: Terms, version: int, now_ns: int) -> None:
        """Put other limits in force; the same ones change nothing. May be repeated after a death in
        it (queue lock held)."""
        q, at = self.q, self.at(row)
        if q[at + L_VERSION] == version:
            return
        self.changes()
        if q[at + L_PERIOD]:
            self.renew(at, now_ns)
        q[at + L_FLAGS] &= ~PLAIN  # <- until all of it is stored
        if not self._are(at, terms):
            q[at + L_CHANGED] = now_ns
            if q[at + L_PERIOD] != terms.period_ns:
                q[at + L_PERIOD] = 0  # <- from here on nobody renews
            for d in EACH:
                new = terms.limits[d] + 1
                limited = NONE not in (new, q[at + L_LIMIT + d])
                used = q[at + L_USED + d] & 0xFFFF_FFFF if limited else 0
                q[at + L_USED + d] = rate.pack(now_ns // terms.period_ns, used)
                self._put_limit(at, d, new)
            q[at + L_PERIOD] = terms.period_ns
        self._put_terms(at, terms, version)

    def _are(self, at: int, terms: Terms) -> bool:
        q = self.q
        same = all(q[at + L_CONFIGURED + d] == terms.limits[d] + 1 for d in EACH)
        relative = (q[at + L_FLAGS] ^ terms.flags) & RELATIVE
        return same and not relative and q[at + L_PERIOD] == terms.period_ns

    def _put_limit(self, at: int, d: int, limit: int) -> None:
        q = self.q
        q[at + L_LIMIT + d] = q[at + L_NEXT + d] = limit
        q[at + L_CONFIGURED + d] = limit  # <- last: until then it is another

    def _put_terms(self, at: int, terms: Terms, version: int) -> None:
        q = self.q
        q[at + L_CAP] = max(0, terms.running)
        q[at + L_DEBT] = 0 if terms.debt_periods is None else terms.debt_periods + 1
        flags = terms.flags | (SETTLES if terms.settles else 0)
        q[at + L_FLAGS] = flags | (PLAIN if terms.is_plain else 0)
        q[at + L_OPENS] = self.opens_ns(at)
        q[at + L_VERSION] = version

    def averaged(self, row: int, average: tuple[float, float], now_ns: int) -> None:
        """Average arrivals per period (calls, bytes), to which the limits of `row` are relative;
        they count from the next renewal on (queue lock held)."""
        q, at = self.q, self.at(row)
        self.renew(at, now_ns - 1)
        for d in (CALLS, BYTES):
            configured = q[at + L_CONFIGURED + d] - 1
            if configured > 0 and q[at + L_FLAGS] & RELATIVE:
                q[at + L_NEXT + d] = rate.relative_limit(configured, average[d]) + 1
        q[at + L_OPENS] = self.opens_ns(at)
