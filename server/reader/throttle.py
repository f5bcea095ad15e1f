"""Dispatch throttling, a reader's part: the limiters that a call names, before it is offered.

A reader keeps the rows of the calls it has seen, by method and caller (`named_limiters`). It stores
them in the slot, and looks then whether they are still those keys' rows: one that nobody names may
have been given to another key. Once a staged call names them they stay what they are, and the
others of the same method and caller that are staged meanwhile name them without a look. Which
limits a row has, and what is used of them, only the queue knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...shm import slot_limiters
from ...shm.budgets import COUNTED, W_REQUEST
from ...shm.limiter_counters import L_CALLER, L_KEY, L_LOOKED
from ...shm.rings import SLOT_WORDS
from ...shm.shared import Shared
from ...shm.slot_limiters import W_BUDGET, W_HELD_BY, W_LIMITERS
from ...shm.states import HELD, QUEUED, STATE_MASK
from ..limits import Limits
from .named_limiters import Named, NamedLimiters

CALLS_AT_A_TIME = 64  # that are named again under one lock
NO_TIME_NS = 1 << 62  # an opening that is no time: blocked
ANY_NS = 1 << 64  # later than any deadline


class Staged:
    """What a staged call names, so that it is nobody else's before the call is offered: a slot's
    words. Calls with a later deadline than one time may wait, as it was then; those with a later
    one than the other need no closer look."""

    __slots__ = ("lets_wait_after_ns", "looks_until_ns", "word", "words")

    def __init__(self, words: list[int], lets_wait_after_ns: int, *, looks_closer: bool) -> None:
        self.word, self.words = words[0], words
        self.lets_wait_after_ns = lets_wait_after_ns
        looks = looks_closer or self.word >= slot_limiters.MORE
        self.looks_until_ns = ANY_NS if looks else lets_wait_after_ns


class Throttle:
    """That of one reader. `name` is called for every call that is staged, whose slot names nothing
    before; `clear` for one that named something, once it is free."""

    def __init__(self, shared: Shared, number: int = 0) -> None:
        self._number, self._columns = number, shared.columns
        self._q, self._table, self._slot0 = shared.segment.q, shared.table, shared.table.slot0
        self._limiters, self._named = shared.table.limiters, NamedLimiters(shared, number)
        self.version_word = shared.rates.version_word
        self._limits: Limits | None = None
        self._looks_closer = False
        self._staged: dict[tuple[int, str], Staged] = {}
        self.limited: set[int] = set()  # staged slots that may be refused, or held at once
        self._last: tuple[object, dict[int, int]] = (None, {})

    def name(
        self, slot: int, row: int, caller: str, deadline_ns: int, batch: object, now_ns: int
    ) -> None:
        """Store the limiters of the call of method `row` that is staged in `slot`, a free one of
        this reader; it is one of `batch` if that is not None."""
        own = self._slot0 + slot * SLOT_WORDS
        staged = self._staged.get((row, caller)) or self._look(own, row, caller, now_ns)
        self._q[own + W_LIMITERS] = staged.word
        if deadline_ns <= staged.looks_until_ns:
            self._look_closer(staged, slot, row, deadline_ns, batch)

    def _look(self, own: int, row: int, caller: str, now_ns: int) -> Staged:
        """Store the limiters of the first staged call of its kind, once they are right."""
        self._named.ask_again(now_ns)
        while True:
            limits = self._in_force()
            found = self._named.find(limits, row, caller, now_ns)
            if self._store(own, found, now_ns) and self._q[self.version_word] == limits.version:
                until_ns = self._table.blockers.lets_wait_after_ns(own)
                staged = Staged(found.words, until_ns, looks_closer=self._looks_closer)
                self._staged[row, caller] = staged
                return staged
            self._named.forget(row, caller)

    def _look_closer(
        self, staged: Staged, slot: int, row: int, deadline_ns: int, batch: object
    ) -> None:
        """Where a call names many limiters, one of them may stop it when it comes, or arrivals are
        counted, or batches are, or calls that wait."""
        own = self._slot0 + slot * SLOT_WORDS
        if staged.word >= slot_limiters.MORE:
            slot_limiters.name(self._q, own, staged.words)
        if deadline_ns <= staged.lets_wait_after_ns:
            self.limited.add(slot)
        limits = self._limits  # by which the call's limiters were found
        assert limits is not None
        if limits.switches.backlog_only and staged.word:
            slot_limiters.look_closer(self._q, own)
            self._q[own + W_BUDGET] = COUNTED
            self.limited.add(slot)
        if limits.counts_arrivals:
            self._columns.arrives(self._number, row, self._q[own + W_REQUEST] >> 32)
        if batch is not None and limits.switches.batches and staged.word:
            self._join(slot, own, row, batch)

    def offered(self) -> None:
        """What was staged is offered, or nobody's any more: rows are looked at anew."""
        self._staged.clear()
        self.limited.clear()

    def name_again(self, waiting: Iterable[tuple[int, int, str]], now_ns: int) -> None:
        """Other rates are in force: (slot, method row, caller) of calls that wait since before.

        A call that a limiter holds stays with it until that opens, and is looked at anew then.
        """
        limits = self._in_force()
        found = [
            (slot, self._named.find(limits, row, caller, now_ns)) for slot, row, caller in waiting
        ]
        for first in range(0, len(found), CALLS_AT_A_TIME):
            with self._table.queue_lock:
                for slot, kept in found[first : first + CALLS_AT_A_TIME]:
                    self._name_waiting(self._slot0 + slot * SLOT_WORDS, kept, limits, now_ns)

    @property
    def charges_dropped(self) -> bool:
        """Whether calls that are withdrawn while they wait are to be charged."""
        return bool(self._q[self.version_word]) and self._in_force().switches.charge_dropped

    def _name_waiting(self, own: int, kept: Named, limits: Limits, now_ns: int) -> None:
        """With the queue lock held."""
        q = self._q
        if q[own] & STATE_MASK not in (QUEUED, HELD):
            return
        if not all(self._limiters.is_key(row, *key) for row, key in kept.rows):
            return
        if q[own + W_HELD_BY] and not kept.rows:
            return  # who names nothing is held by nobody: it goes by what it names
        if q[own + W_BUDGET] >= COUNTED:
            self._table.backlogs.unmark(own)
        self._store(own, kept, now_ns)
        if kept.rows and limits.switches.backlog_only:
            self._table.backlogs.mark(own)

    def clear(self, slot: int) -> None:
        """`slot` is free again, and names nothing any more."""
        slot_limiters.clear(self._q, self._slot0 + slot * SLOT_WORDS)
        if self._staged:
            self._staged.clear()

    def begin(self, slot: int) -> None:
        """`slot` is free; the reader that had it may have died before it cleared it."""
        self.clear(slot)

    def retry_after_ms(self, slot: int, now_ns: int) -> int | None:
        """When the limiters of the call in `slot` open; 0: they are open, None: they never are."""
        opens_ns = self._table.blockers.opens_ns(self._slot0 + slot * SLOT_WORDS)
        return None if opens_ns >= NO_TIME_NS else max(0, -(-(opens_ns - now_ns) // 1_000_000))

    def _in_force(self) -> Limits:
        limits = self._named.in_force()
        if limits is not self._limits:
            self._limits = limits
            self._looks_closer = limits.counts_arrivals or limits.switches.looks_at_calls
            self._staged.clear()
        return limits

    def _store(self, own: int, kept: Named, now_ns: int) -> bool:
        """Whether what was stored is what the keys' rows are, from now on."""
        q = self._q
        for place, _, _ in kept.places:
            q[place + L_LOOKED] = now_ns
        slot_limiters.name(q, own, kept.words)
        for place, key, caller in kept.places:
            if q[place + L_KEY] != key or q[place + L_CALLER] != caller:
                return False
        return True

    def _join(self, slot: int, own: int, row: int, batch: object) -> None:
        """Behind the batch's last call of this method."""
        if self._last[0] is not batch:
            self._last = batch, {}
        before = self._last[1].get(row)
        if before is not None:
            slot_limiters.follow(self._q, self._slot0 + before * SLOT_WORDS, own, slot)
        self._last[1][row] = slot
