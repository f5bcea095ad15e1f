"""At its opening a limiter lets calls go: they wait again, at their old place or the nearest.

Of each level it lets go as many as it has room for: which of them it has room for in the end, the
multiplexer says, who draws among all that wait. Calls whose batch has paid for them go first, and
need no more than a place among those that run.

However many it is, they are let go so many at a time: what is `unfinished` is known to the process
that does it alone, and goes on in its next section. Should it die in between, the limiter's next
look begins anew. Everything here runs with the queue lock held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import states
from .heaps import W_CHILD
from .held import FIRST
from .layout import GROUP_SHIFT, SLOT, word_of
from .policy import QueuePolicy
from .rings import SLOT_WORDS, W_CALL, W_TURN
from .states import QUEUED

if TYPE_CHECKING:
    from .table import CallTable

W_PRINCIPAL = word_of(SLOT, "principal")


@dataclass(slots=True)
class _Level:
    """One level of a limiter that is open: for how much it has room, and how many may run."""

    row: int
    level: int
    rooms: tuple[int, int, int]
    free: int
    paid: set[int] = field(default_factory=set)  # with the heads of their batches


@dataclass(slots=True)
class _Batch:
    """Held calls that are paid for: (slot, state word), the first of them last."""

    calls: list[tuple[int, int]]


class Openings:
    """Works on the table that it is given."""

    def __init__(self, table: CallTable) -> None:
        self._table = table
        self.unfinished: list[_Level | _Batch] = []  # the next one last
        self.opened = [0] * table.geometry.groups  # calls let go in the last section, by group
        self._opened: dict[int, int] = {}  # latest turn given at this opening, by last_turn word
        # Last slot put into each chain by it, with its state word.
        self._near: dict[tuple[int, int, int], tuple[int, int]] = {}

    def let_go(self, policy: QueuePolicy, now_ns: int, most: int) -> int:
        """Calls of all limiters that are due, or of what is unfinished; how many."""
        if not self.unfinished:
            self._begin()
            for row in self._table.held.due(now_ns):
                self._open(row, now_ns)
            self.unfinished.reverse()
        return self._go_on(policy, now_ns, most)

    def let_paid_go(
        self, policy: QueuePolicy, slots: Sequence[int], now_ns: int, most: int
    ) -> None:
        """Held calls of a batch whose head has just been charged."""
        table = self._table
        if not self.unfinished:
            self._begin()
        calls = [(slot, table.q[table.slot0 + slot * SLOT_WORDS]) for slot in slots]
        self.unfinished.append(_Batch(calls[::-1]))
        self._go_on(policy, now_ns, most)

    def _begin(self) -> None:
        self._opened.clear()
        self._near.clear()

    def _open(self, row: int, now_ns: int) -> None:
        table = self._table
        rooms, free = table.budgets.rooms(row, now_ns), table.budgets.free(row)
        for level in range(table.geometry.rings):
            if table.held.first(row, level) >= 0:
                self.unfinished.append(_Level(row, level, rooms, free))

    def _go_on(self, policy: QueuePolicy, now_ns: int, most: int) -> int:
        count, self.opened = 0, [0] * len(self.opened)
        while self.unfinished and count < most:
            opening = self.unfinished[-1]
            if isinstance(opening, _Level):
                count += self._open_level(policy, opening, now_ns, most - count)
            else:
                count += self._open_batch(policy, opening, now_ns, most - count)
            if count < most:
                self.unfinished.pop()
        return count

    def _open_level(self, policy: QueuePolicy, opening: _Level, now_ns: int, most: int) -> int:
        """Calls of one level that a limiter lets go, at most so many; how many."""
        table, count, row, level = self._table, 0, opening.row, opening.level
        while opening.free > 0 and count < most and table.held.is_paid(row, level):
            self._queue(policy, table.held.first(row, level), level, now_ns)
            opening.free, count = opening.free - 1, count + 1
        calls, size, us = opening.rooms
        while calls > 0 and size > 0 and us > 0 and count < most:
            slot = table.held.first(row, level)
            if slot < 0:
                break
            own = table.slot0 + slot * SLOT_WORDS
            is_paid = own in opening.paid
            taken, spent_us = table.budgets.expected(own, row, is_paid=is_paid)
            if not is_paid:
                opening.paid.update(table.budgets.behind(own))
            self._queue(policy, slot, level, now_ns)
            calls, size, us, count = calls - (not is_paid), size - taken, us - spent_us, count + 1
        opening.rooms = calls, size, us
        return count

    def _open_batch(self, policy: QueuePolicy, opening: _Batch, now_ns: int, most: int) -> int:
        """Calls of a batch that are held still, at most so many; how many."""
        table, count = self._table, 0
        while opening.calls and count < most:
            slot, word = opening.calls.pop()
            if table.q[table.slot0 + slot * SLOT_WORDS] == word:
                level = word >> states.LEVEL_SHIFT & states.LEVEL_MASK
                self._queue(policy, slot, level, now_ns)
                count += 1
        return count

    def _queue(self, policy: QueuePolicy, slot: int, level: int, now_ns: int) -> None:
        table, q = self._table, self._table.q
        own = table.slot0 + slot * SLOT_WORDS
        table.held.let_go(slot, level, now_ns)
        turn = self._turn_again(policy, own, level)
        cls = q[own + W_CALL] >> states.CLASS_SHIFT & 1
        turn += table.rings.lead_of(level, cls)
        q[own + W_CHILD], q[own + W_TURN] = q[own + W_TURN], turn
        q[own] = q[own] & ~states.STATE_MASK | QUEUED  # <- opened here
        chain = level, cls, turn
        table.rings.insert(*chain, slot, self._near_in(chain))
        self._near[chain] = slot, q[own]
        group = level >> GROUP_SHIFT
        q[table.waiting_words[group]] += 1
        self.opened[group] += 1

    def _near_in(self, chain: tuple[int, int, int]) -> int:
        """The last slot that was put into `chain`, if it is there still; -1."""
        table, (slot, word) = self._table, self._near.get(chain, (-1, 0))
        own = table.slot0 + slot * SLOT_WORDS
        is_there = slot >= 0 and table.q[own] == word and table.q[own + W_TURN] == chain[2]
        return slot if is_there else -1

    def _turn_again(self, policy: QueuePolicy, own: int, level: int) -> int:
        """The turn of a call that was held, by its level's count; in turn, too, when that has
        passed its own.

        (All at the level's turn, they would go one after the other, ahead of everybody else.)
        """
        table, q = self._table, self._table.q
        now = q[table.rings.turn_word + level]
        if not policy.in_turn:
            return max(now, FIRST + 1)
        row = q[own + W_PRINCIPAL] & 0xFFFF_FFFF
        last = table.last_turn0 + row * table.geometry.ring_numbers + level
        turn = max(now, q[own + W_TURN], self._opened.get(last, -1) + 1)
        turn = min(turn, now + table.rings.turns - 1)
        self._opened[last] = turn
        cls = q[own + W_CALL] >> states.CLASS_SHIFT & 1
        table.turns.note(row, level, cls, max(table.turns.last(row, level), turn))
        return turn
