"""Dispatch throttling, a reader's part: the limiters that a call names, before it is offered.

A reader keeps the rows of the calls it has seen, by method and caller. It stores them in the slot,
and looks then whether they are still those keys' rows: one that nobody names may have been given to
another key. Which limits a row has, and what is used of them, only the queue knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...shm.budgets import W_BATCH, W_BUDGET, W_REQUEST
from ...shm.held import LIMITER_SLOT_WORDS, W_HELD_BY, W_LIMITERS, limiter_words
from ...shm.limiters import L_VERSION, Kind, Terms, kind_of
from ...shm.rings import SLOT_WORDS
from ...shm.shared import Shared
from ...shm.states import HELD, QUEUED, STATE_MASK
from ..limits import Key, Limits
from ..rates_in_force import renew_row

MOST_KEPT = 10_000  # pairs of method and caller
RETRY_NS = 1_000_000_000  # how often those who share a row ask for one of their own
CALLS_AT_A_TIME = 64  # that are named again under one lock
NEVER_NS = 1 << 62  # an opening that is no time: blocked


class Named(NamedTuple):
    """The limiters of a call: a slot's words, and the rows with their keys."""

    words: list[int]
    rows: list[tuple[int, Key]]


class Throttle:
    """That of one reader. `name` is called for every call that is staged."""

    def __init__(self, shared: Shared, number: int = 0) -> None:
        self._number, self._columns = number, shared.columns
        self._q, self._table, self._shared = shared.segment.q, shared.table, shared
        self._slot0, self._limiters = shared.table.slot0, shared.table.limiters
        self.version_word, self._version = shared.rates.version_word, 0
        self._limits: Limits | None = None
        self._named: dict[tuple[int, str], Named] = {}
        self._sharers: set[tuple[int, str]] = set()
        self._asked_ns = self._made_room_ns = 0
        self._last: tuple[object, dict[int, int]] = (None, {})

    def name(
        self, slot: int, method: str, row: int, caller: str, batch: object, now_ns: int
    ) -> None:
        """Store the limiters of the call that is staged in `slot`, one of `batch` if not None."""
        q, own = self._q, self._slot0 + slot * SLOT_WORDS
        q[own + W_BUDGET] = q[own + W_BATCH] = 0
        self._ask_again(now_ns)
        while True:
            limits = self._in_force()
            kept = self._kept(limits, method, row, caller, now_ns)
            if self._store(own, kept, now_ns) and self._q[self.version_word] == limits.version:
                break
            self._named.pop((row, caller), None)
        if limits.counts_arrivals:
            self._columns.arrives(self._number, row, q[own + W_REQUEST] >> 32)
        if batch is not None and limits.switches.batches:
            self._join(slot, own, row, batch)

    def name_again(self, waiting: Iterable[tuple[int, str, int, str]], now_ns: int) -> None:
        """Other rates are in force: (slot, method, row, caller) of calls that wait since before.

        A call that a limiter holds stays with it until that opens, and is looked at anew then.
        """
        limits = self._in_force()
        found = [
            (slot, self._kept(limits, method, row, caller, now_ns))
            for slot, method, row, caller in waiting
        ]
        for first in range(0, len(found), CALLS_AT_A_TIME):
            with self._table.queue_lock:
                for slot, kept in found[first : first + CALLS_AT_A_TIME]:
                    self._name_waiting(self._slot0 + slot * SLOT_WORDS, kept, now_ns)

    def _name_waiting(self, own: int, kept: Named, now_ns: int) -> None:
        """With the queue lock held."""
        q, is_named = self._q, self._q[own + W_LIMITERS] != 0
        if q[own] & STATE_MASK not in (QUEUED, HELD):
            return
        if not all(self._limiters.is_key(row, *key) for row, key in kept.rows):
            return
        if not is_named:  # nobody has written these words since the slot's last call
            q[own + W_HELD_BY] = q[own + W_BUDGET] = q[own + W_BATCH] = 0
        elif q[own + W_HELD_BY] and not kept.rows:
            return  # who names nothing is held by nobody: it goes by what it names
        self._store(own, kept, now_ns)

    def _kept(self, limits: Limits, method: str, row: int, caller: str, now_ns: int) -> Named:
        kept = self._named.get((row, caller))
        return self._find(limits, method, row, caller, now_ns) if kept is None else kept

    def clear(self, slot: int) -> None:
        """`slot` is free again, and names nothing any more."""
        own = self._slot0 + slot * SLOT_WORDS + W_LIMITERS
        for at in range(own, own + LIMITER_SLOT_WORDS):
            self._q[at] = 0

    def retry_after_ms(self, slot: int, now_ns: int) -> int | None:
        """When the limiters of the call in `slot` open; None if they do not."""
        opens_ns = self._table.budgets.opens_ns(self._slot0 + slot * SLOT_WORDS)
        return None if opens_ns >= NEVER_NS else max(1, -(-(opens_ns - now_ns) // 1_000_000))

    def _in_force(self) -> Limits:
        if self._limits is None or self._q[self.version_word] != self._version:
            version, text = self._shared.rates.read()
            self._limits, self._version = Limits(self._shared.names, version, text), version
            self._named.clear()
        return self._limits

    def _store(self, own: int, kept: Named, now_ns: int) -> bool:
        """Whether what was stored is what the keys' rows are, from now on."""
        q, at = self._q, own + W_LIMITERS
        for row, _ in kept.rows:
            self._limiters.looked(row, now_ns)
        for offset, word in enumerate(kept.words):
            q[at + offset] = word
        return all(self._limiters.is_key(row, *key) for row, key in kept.rows)

    def _find(self, limits: Limits, method: str, row: int, caller: str, now_ns: int) -> Named:
        """The rows of a call, made where there are none."""
        process = self._number + 1 if limits.switches.per_process else 0
        wanted = limits.keys(method, row, caller, process)
        rows = [self._row(limits, method, key, terms, now_ns) for key, terms in wanted]
        if len(self._named) >= MOST_KEPT:
            self._named.clear()
        kept = Named(limiter_words([number for number, _ in rows]), rows)
        self._named[row, caller] = kept
        if any(is_others(key) for _, key in rows):
            self._sharers.add((row, caller))
        return kept

    def _ask_again(self, now_ns: int) -> None:
        """Those who share a row may find room for one of their own by now."""
        if self._sharers and now_ns - self._asked_ns > RETRY_NS:
            self._asked_ns = now_ns
            for sharer in self._sharers:
                self._named.pop(sharer, None)
            self._sharers.clear()

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
        if row < 0 and limiters.give_away(self._table.budgets.named_by(), now_ns, anybodys=True):
            row = limiters.make(*key, terms, limits.version, now_ns, now_ns)
        return row

    def _has_room(self, limits: Limits, now_ns: int) -> bool:
        """Whether one more caller may have a row of its own (queue lock held)."""
        limiters, most_callers = self._limiters, limits.switches.most_callers
        if limits.switches.per_process:
            most_callers *= self._shared.geometry.readers
        if limiters.callers() >= most_callers and now_ns - self._made_room_ns > RETRY_NS:
            self._made_room_ns = now_ns
            limiters.give_away(self._table.budgets.named_by(), now_ns)
        return limiters.callers() < most_callers

    def _join(self, slot: int, own: int, row: int, batch: object) -> None:
        """Behind the batch's last call of this method."""
        if self._last[0] is not batch:
            self._last = batch, {}
        before = self._last[1].get(row)
        if before is not None:
            generation = self._q[own] >> 32
            at = self._slot0 + before * SLOT_WORDS + W_BATCH
            self._q[at] = generation << 32 | slot + 1
        self._last[1][row] = slot


def is_others(key: Key) -> bool:
    """Whether a row is shared by those who found no other."""
    return kind_of(key.key) is Kind.OTHERS
