"""The budgets' rows: a bounded table of keys, each with its limits and what is used of them.

    kind        which one                       caller          rows
    SERVER      0                               all             one
    SERVICE     a hash of its name              all             one for each
    RESOURCE    a hash of its name              all             one for each
    METHOD      the method's row                all             one for each
    CALLER      0                               one             one for each, while there is room
    PAIR        the method's row                one             one for each, while there is room
    OTHERS      0 = CALLER, or the method + 1   all the others  those who found the table full

The arithmetic is `scheduling.dispatch_rate`, over the words of a row. Everything that changes a row
runs with the queue lock held. `key` is stored last when a row is made. A row is given away only if
a new one would be the same (nothing used, nothing held, nothing running) and no slot names it: a
debt is never forgotten. Who keeps a row's number stores it in its slot first, and then looks
whether the key is still its own (`is_key`); `looked_ns` keeps the row for as long as that takes.

A change of limits pays with the old ones first, and keeps what is used. While the length of the
period changes `period_ns` is 0: nobody renews, and who finds it so knows that `used` alone counts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from ..scheduling import dispatch_rate as rate
from .layout import DIMENSIONS, LIMITER, METHOD, WORD, word_of
from .rings import Slots
from .segment import Segment

LIMITER_WORDS = LIMITER.itemsize // WORD
_L = {name: word_of(LIMITER, name) for name in LIMITER.names or ()}
L_KEY, L_CALLER, L_FLAGS, L_PERIOD = _L["key"], _L["caller"], _L["flags"], _L["period_ns"]
L_LIMIT, L_NEXT, L_USED = _L["limit"], _L["next_limit"], _L["used"]
L_CONFIGURED = _L["configured"]
L_CAP, L_DEBT, L_CHANGED = _L["running_limit"], _L["debt_periods"], _L["changed_ns"]
L_VERSION, L_LOOKED = _L["version"], _L["looked_ns"]
L_OPENS, L_RUNNING, L_HELD, L_OPENED = _L["opens_ns"], _L["running"], _L["held"], _L["opened"]
L_ROOT, L_EVENTS, L_HELD_NS = _L["root"], _L["events"], _L["held_ns"]
METHOD_WORDS, M_AVERAGE = METHOD.itemsize // WORD, word_of(METHOD, "average")

CALLS, BYTES, HANDLER = range(DIMENSIONS)
EACH = range(DIMENSIONS)
NONE = 0  # a limit word; any other is the limit + 1
MOST_ROOM = rate.MOST_LIMIT
KEPT_NS = 1_000_000_000  # a row that was named so lately is not given away
KIND_SHIFT, PROCESS_SHIFT = 56, 44
_PROCESS, _NUMBER = (1 << KIND_SHIFT - PROCESS_SHIFT) - 1, (1 << PROCESS_SHIFT) - 1

# Flags of a row; the method of LEARNS stands above them: row + 1 << LEARNS_SHIFT.
PACED, DRY_RUN, REQUEST, ANSWER, SETTLES, LEARNS, RELATIVE = (1 << bit for bit in range(7))
LEARNS_SHIFT = 32
REASONS = ("calls", "bytes", "handler", "running", "order", "refused")
RUNNING_CAP, IN_ORDER, REFUSED = 3, 4, 5


class Kind(enum.IntEnum):
    """What a row limits."""

    SERVER = 1
    SERVICE = 2
    RESOURCE = 3
    METHOD = 4
    CALLER = 5
    PAIR = 6
    OTHERS = 7


def key_of(kind: Kind, number: int = 0, process: int = 0) -> int:
    """The key word of a row; `process`: the reader + 1 where each has budgets of its own."""
    return kind << KIND_SHIFT | process << PROCESS_SHIFT | number & _NUMBER


def kind_of(key: int) -> Kind:
    return Kind(key >> KIND_SHIFT)


def number_of(key: int) -> int:
    return key & _NUMBER


def process_of(key: int) -> int:
    return key >> PROCESS_SHIFT & _PROCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The limits of a row: -1 none, 0 blocked, or a number per `period_ns`, per dimension."""

    limits: tuple[int, int, int] = (rate.NONE, rate.NONE, rate.NONE)
    period_ns: int = 1_000_000_000
    running: int = 0  # 0 = no cap
    debt_periods: int | None = None
    flags: int = 0

    @property
    def settles(self) -> bool:
        """Whether what a call used is known only at its end."""
        counts_answers = self.flags & ANSWER and self.limits[BYTES] != rate.NONE
        limits_handlers = self.limits[HANDLER] != rate.NONE
        return bool(self.running > 0 or counts_answers or limits_handlers or self.flags & LEARNS)


class Limiters:
    """The rows, by number; `at(row)` is where the words of one begin."""

    def __init__(self, segment: Segment) -> None:
        g, layout = segment.geometry, segment.layout
        self.q, self.count, self.stride = segment.q, g.limiters, LIMITER_WORDS
        self.first = layout.limiters // WORD
        self.rows = segment.words(layout.limiters, g.limiters * LIMITER_WORDS).reshape(
            -1, LIMITER_WORDS
        )
        self._methods0 = layout.methods // WORD + M_AVERAGE

    def at(self, row: int) -> int:
        return self.first + row * LIMITER_WORDS

    # -- finding and making ----------------------------------------------------------------------

    def find(self, key: int, caller: int = 0) -> int:
        """The row of a key; -1 if it has none."""
        found = np.flatnonzero((self.rows[:, L_KEY] == key) & (self.rows[:, L_CALLER] == caller))
        return int(found[0]) if len(found) else -1

    def is_key(self, row: int, key: int, caller: int) -> bool:
        """Whether `row` is that of a key, at this moment."""
        at = self.first + row * LIMITER_WORDS
        return self.q[at + L_KEY] == key and self.q[at + L_CALLER] == caller

    def looked(self, row: int, now_ns: int) -> None:
        """A reader is about to name `row`."""
        self.q[self.first + row * LIMITER_WORDS + L_LOOKED] = now_ns

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
        """
        rows, freed = self.rows, 0
        theirs = rows[:, L_KEY] != 0 if anybodys else rows[:, L_CALLER] != 0
        idle = theirs & (rows[:, L_LOOKED] + np.uint64(KEPT_NS) <= now_ns)
        idle &= ~rows[:, [L_HELD, L_OPENED, L_RUNNING]].any(axis=1)
        idle[named] = False
        for row in np.flatnonzero(idle).tolist():
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
        if q[at + L_PERIOD]:
            self.renew(at, now_ns)
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
        q[at + L_FLAGS] = terms.flags | (SETTLES if terms.settles else 0)
        q[at + L_CAP] = max(0, terms.running)
        q[at + L_DEBT] = 0 if terms.debt_periods is None else terms.debt_periods + 1
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

    # -- arithmetic over the words of the row at `at` ----------------------------------------------

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
            following = q[at + L_NEXT + d]
            if limit == following:
                q[at + L_USED + d] = rate.renewed(word, period, limit - 1)
                continue
            if following < limit:
                q[at + L_LIMIT + d] = following
            q[at + L_USED + d] = rate.renewed_relative(word, period, limit - 1, following - 1)
            q[at + L_LIMIT + d] = following

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
