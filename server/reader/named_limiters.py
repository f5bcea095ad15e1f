"""The limiter rows of a method's callers, as one reader keeps them: found by key, or made.

Where the table is full, callers share a row, and ask for one of their own from time to time.
"""

from __future__ import annotations

from typing import NamedTuple

from ...shm.limiter_counters import L_VERSION
from ...shm.limiters import LOOKED_AT_ONCE
from ...shm.shared import Shared
from ...shm.slot_limiters import limiter_words
from ...shm.terms import Kind, Terms, kind_of
from ..limits import Key, Limits
from ..rates_in_force import renew_row

MOST_KEPT = 10_000  # pairs of method and caller
RETRY_NS = 1_000_000_000  # how often those who share a row ask for one of their own
MAKE_ROOM_NS = 10_000_000  # how often rows are looked at for one to be given away


class Named(NamedTuple):
    """The limiters of a call: its slot's words, and the rows with their keys; for each row also
    (where its words begin, key, caller)."""

    words: list[int]
    rows: list[tuple[int, Key]]
    places: list[tuple[int, int, int]]


class NamedLimiters:
    """Those of one reader, by the rates in force."""

    def __init__(self, shared: Shared, number: int) -> None:
        self._number, self._shared = number, shared
        self._q, self._table, self._limiters = shared.segment.q, shared.table, shared.table.limiters
        self.version_word, self._version = shared.rates.version_word, 0
        self._limits: Limits | None = None
        self._kept: dict[tuple[int, str], Named] = {}
        self._sharers: set[tuple[int, str]] = set()
        self._asked_ns = self._made_room_ns = 0

    def in_force(self) -> Limits:
        """The rates, read anew if they have changed; what was found by others is forgotten."""
        if self._limits is None or self._q[self.version_word] != self._version:
            version, text = self._shared.rates.read()
            self._limits, self._version = Limits(self._shared.names, version, text), version
            self._kept.clear()
        return self._limits

    def find(self, limits: Limits, row: int, caller: str, now_ns: int) -> Named:
        """Those of calls of method `row` by `caller`, by the rates in force; nobody else may need
        them, so that they may be given to other keys, until a slot names them."""
        kept = self._kept.get((row, caller))
        return self._find(limits, row, caller, now_ns) if kept is None else kept

    def forget(self, row: int, caller: str) -> None:
        """They are not these keys' rows any more."""
        self._kept.pop((row, caller), None)

    def ask_again(self, now_ns: int) -> None:
        """Those who share a row may find room for one of their own by now."""
        if self._sharers and now_ns - self._asked_ns > RETRY_NS:
            self._asked_ns = now_ns
            for sharer in self._sharers:
                self._kept.pop(sharer, None)
            self._sharers.clear()

    def _find(self, limits: Limits, row: int, caller: str, now_ns: int) -> Named:
        """The rows of a call, made where there are none."""
        method = self._shared.names.methods.name(row)
        process = self._number + 1 if limits.switches.per_process else 0
        wanted = limits.keys(method, row, caller, process)
        rows = [self._row(limits, method, key, terms, now_ns) for key, terms in wanted]
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        words = limiter_words([number for number, _ in rows])
        kept = Named(words, rows, [(self._limiters.at(number), *key) for number, key in rows])
        self._kept[row, caller] = kept
        if any(kind_of(key.key) is Kind.OTHERS for _, key in rows):  # shared by those without
            self._sharers.add((row, caller))
        return kept

    def _row(
        self, limits: Limits, method: str, key: Key, terms: Terms, now_ns: int
    ) -> tuple[int, Key]:
        limiters = self._limiters
        with self._table.queue_lock:
            row = limiters.find(*key)
            if row >= 0 and self._is_outdated(row, limits):
                renew_row(self._shared, row, key, terms, limits.version, now_ns)
            if row < 0 and key.caller and not limits.is_named(key, method):
                others, shared_terms = limits.others_of(key)
                row = limiters.find(*others)
                owes = row >= 0 and not limiters.is_idle(row, now_ns)
                if owes or not self._has_room(limits, now_ns):
                    key, terms = others, shared_terms
                else:
                    row = -1
            if row < 0:
                row = self._make(limits, key, terms, now_ns)
            if row < 0 and key.caller:
                key, terms = limits.others_of(key)
                row = limiters.find(*key)
        if row < 0:
            raise RuntimeError(f"no row is free for {limits.describe(key, None)}")
        return row, key

    def _is_outdated(self, row: int, limits: Limits) -> bool:
        """Whether it was made by rates that are not in force any more (queue lock held)."""
        q = self._q
        made_by = q[self._limiters.at(row) + L_VERSION]
        return made_by != limits.version and q[self.version_word] == limits.version

    def _make(self, limits: Limits, key: Key, terms: Terms, now_ns: int) -> int:
        """A new row; where the table is full, in the place of an idle one; -1 if none is idle."""
        limiters = self._limiters
        row = limiters.make(*key, terms, limits.version, now_ns, now_ns)
        looks = 1 if key.caller else -(-limiters.count // LOOKED_AT_ONCE)  # others share no row
        while row < 0 and looks:
            looks -= 1
            if limiters.give_away(self._table.budgets.named_by(), now_ns, anybodys=True):
                row = limiters.make(*key, terms, limits.version, now_ns, now_ns)
        return row

    def _has_room(self, limits: Limits, now_ns: int) -> bool:
        """Whether one more caller may have a row of its own (queue lock held)."""
        limiters, most_callers = self._limiters, limits.switches.most_callers
        if limits.switches.per_process:
            most_callers *= self._shared.geometry.readers
        if limiters.callers() >= most_callers and now_ns - self._made_room_ns > MAKE_ROOM_NS:
            self._made_room_ns = now_ns
            limiters.give_away(self._table.budgets.named_by(), now_ns)
        return limiters.callers() < most_callers
