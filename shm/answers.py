"""Calls end: their answers go back to the reader, or it gives them up; then the slot is FREE again.

Each reader has a ring of the slots that are answered, as long as it has slots, and a lock for it.
Handlers put slots in as they become DONE, the reader takes them out as they become TAKEN. The
answers themselves are words of the slot, and pages; they are stored before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from . import states
from .budgets import COUNTED
from .layout import GROUP_SHIFT, LOCKS_BEFORE_ANSWERS
from .mutex import RobustMutex
from .offers import IDENTITY_WORDS, W_PRINCIPAL
from .rings import SLOT_WORDS, W_CALL
from .slot_limiters import W_BUDGET, W_HELD_BY, W_LIMITERS
from .states import (
    ABANDONED,
    CLASS_SHIFT,
    DONE,
    GENERATION_SHIFT,
    HELD,
    LEVEL_MASK,
    LEVEL_SHIFT,
    NOBODYS,
    QUEUED,
    RUNNING,
    TAKEN,
)

if TYPE_CHECKING:
    from .table import CallTable

_NO_STATE = ~states.STATE_MASK

# Outcomes of `withdraw`: it is FREE again; the handler's answer will be dropped; too late.
WITHDRAWN, GIVEN_UP, ANSWERED = range(3)


class Answers:
    """Works on the table that it is given, whose queue lock exists; `locks` are the readers'."""

    def __init__(self, table: CallTable) -> None:
        self._q, self._slot0, self._waiting0 = table.q, table.slot0, table.waiting0
        self._first, self._stride = table.answers0, table.answer_stride
        self._group_waiting0 = table.group_waiting0
        self._length, self._waiting_words = table.slots_per_reader, table.waiting_words
        self._rings, self._held, self._queue_lock = table.rings, table.held, table.queue_lock
        self._budgets, self._backlogs = table.budgets, table.backlogs
        self.locks = [self._lock(table, reader) for reader in range(table.geometry.readers)]

    def _lock(self, table: CallTable, reader: int) -> RobustMutex:
        rebuild = functools.partial(table.recovery.rebuild_answers, reader)
        number = LOCKS_BEFORE_ANSWERS + reader
        return table.segment.lock_at(number, f"answers-{reader}", rebuild)

    def publish(self, reader: int, calls: Iterable[tuple[int, int]]) -> None:
        """`calls` of `reader`, (slot, state word) each, are answered: by words stored before.

        A call that was given up meanwhile goes the same way; its reader drops the answer.
        """
        q, slot0, mask = self._q, self._slot0, self._length - 1
        ring = self._first + reader * self._stride
        entries = ring + self._stride - self._length
        with self.locks[reader]:
            tail = q[ring + 1]
            for slot, token in calls:
                own = slot0 + slot * SLOT_WORDS
                word = q[own]
                if word == token or word == token & _NO_STATE | ABANDONED:
                    q[own] = word & _NO_STATE | DONE  # <- answered here
                    q[entries + (tail & mask)] = slot
                    tail += 1
            q[ring + 1] = tail

    def answer_locked(self, reader: int, slot: int) -> None:
        """`slot` becomes DONE and joins the ring of `reader` (its answer lock held)."""
        q, own, slots = self._q, self._slot0 + slot * SLOT_WORDS, self._length
        q[own] = q[own] & _NO_STATE | DONE
        ring = self._first + reader * self._stride
        tail = q[ring + 1]
        q[ring + self._stride - slots + (tail & slots - 1)] = slot
        q[ring + 1] = tail + 1

    def has_answers(self, reader: int) -> bool:
        """Whether `collect` would find something: a look without the lock."""
        ring = self._first + reader * self._stride
        return bool(self._q[ring] != self._q[ring + 1])

    def collect(self, reader: int, out: list[int]) -> int:
        """Take answered calls of `reader` into `out` (as many as it is long); returns how many."""
        q, slot0 = self._q, self._slot0
        ring = self._first + reader * self._stride
        entries, mask = ring + self._stride - self._length, self._length - 1
        with self.locks[reader]:
            head = q[ring]
            count = min(q[ring + 1] - head, len(out))
            for index in range(count):
                out[index] = slot = q[entries + (head + index & mask)]
                own = slot0 + slot * SLOT_WORDS
                q[own] = q[own] & _NO_STATE | TAKEN  # <- no rebuild can give it again
            q[ring] = head + count
        return count

    def withdraw(
        self,
        reader: int,
        slots: Sequence[int],
        outcomes: list[int],
        *,
        begun: bool = True,
        charged_ns: int | None = None,
    ) -> None:
        """Give up calls of `reader` (expired, cancelled, disconnected); an outcome for each.

        WITHDRAWN: it never began, and the slot is FREE; its limiters are charged for it as of
        `charged_ns`, unless that is None. GIVEN_UP: it runs; its answer is dropped, and the slot
        comes back through `collect`. ANSWERED: too late, its answer is in the ring; or, not
        `begun`, it runs and is left alone.
        """
        with self.locks[reader], self._queue_lock:
            for index, slot in enumerate(slots):
                outcomes[index] = self._withdraw(slot, begun, charged_ns)

    def _withdraw(self, slot: int, begun: bool, charged_ns: int | None) -> int:
        """`withdraw` of one slot, with its reader's answer lock and the queue lock held."""
        q, own = self._q, self._slot0 + slot * SLOT_WORDS
        word = q[own]
        state = word & states.STATE_MASK
        if state in (QUEUED, HELD):
            self._unlink(slot, own, word, charged_ns)
            self.release(slot)
            return WITHDRAWN
        if begun and state in (RUNNING, ABANDONED):
            q[own] = word & _NO_STATE | ABANDONED  # <- given up here
            return GIVEN_UP
        return ANSWERED

    def release(self, slot: int, step: int = 1) -> None:
        """A slot of this reader becomes FREE: nothing that names its old generation names it."""
        q, own = self._q, self._slot0 + slot * SLOT_WORDS
        generation = (q[own] >> GENERATION_SHIFT) + step & 0xFFFF_FFFF
        q[own] = NOBODYS | generation << GENERATION_SHIFT

    def _unlink(self, slot: int, own: int, word: int, charged_ns: int | None) -> None:
        q = self._q
        level = word >> LEVEL_SHIFT & LEVEL_MASK
        if word & states.STATE_MASK == HELD:
            self._leave_limiters(own, charged_ns)
            self._held.unlink(slot, level)
        else:
            self._rings.unlink(level, q[own + W_CALL] >> CLASS_SHIFT & 1, slot)
            q[self._waiting_words[level >> GROUP_SHIFT]] -= 1
            if q[own + W_LIMITERS]:
                self._leave_limiters(own, charged_ns)
                if q[own + W_HELD_BY]:
                    self._held.drawn(own)
        principal, groups = q[own + W_PRINCIPAL] & 0xFFFF_FFFF, len(self._waiting_words)
        q[self._waiting0 + principal * IDENTITY_WORDS] -= 1
        if self._group_waiting0:
            q[self._group_waiting0 + principal * groups + (level >> GROUP_SHIFT)] -= 1

    def _leave_limiters(self, own: int, charged_ns: int | None) -> None:
        """A waiting call is withdrawn: it is charged, if it would have been; it counts no more."""
        is_counted = self._q[own + W_BUDGET] >= COUNTED
        if charged_ns is not None and (not is_counted or self._backlogs.there_is(own)):
            self._budgets.charge_dropped(own, charged_ns)
        if is_counted:
            self._backlogs.leaves(own)
