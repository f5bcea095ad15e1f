"""At its opening a limiter lets calls go: they wait again, at their old place or the nearest.

Of each level it lets go as many as it has room for: which of them it has room for in the end, the
multiplexer says, who draws among all that wait. Everything here runs with the queue lock held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import states
from .heaps import W_CHILD
from .layout import MAX_LEVELS, SLOT, word_of
from .policy import QueuePolicy
from .rings import SLOT_WORDS, W_CALL, W_TURN
from .states import QUEUED

if TYPE_CHECKING:
    from .table import CallTable

W_PRINCIPAL = word_of(SLOT, "principal")


class Openings:
    """Works on the table that it is given."""

    def __init__(self, table: CallTable) -> None:
        self._table = table
        self._opened: dict[int, int] = {}  # latest turn given at this opening, by last_turn word
        self._near: dict[tuple[int, int, int], int] = {}  # last slot put into each chain by it

    def let_go(self, policy: QueuePolicy, now_ns: int) -> int:
        """Calls of all limiters that are due; how many."""
        table, count = self._table, 0
        self._begin()
        for row in table.held.due(now_ns):
            rooms = table.budgets.rooms(row, now_ns)
            for level in range(table.geometry.rings):
                if table.held.first(row, level) >= 0:
                    count += self._open_level(policy, row, level, rooms, now_ns)
        return count

    def _begin(self) -> None:
        self._opened.clear()
        self._near.clear()

    def _open_level(
        self, policy: QueuePolicy, row: int, level: int, rooms: Sequence[int], now_ns: int
    ) -> int:
        """Calls of one level that limiter `row` lets go; how many."""
        table, (calls, size, us), count = self._table, rooms, 0
        paid: set[int] = set()  # with the heads of their batches
        while calls > 0 and size > 0 and us > 0 and (slot := table.held.first(row, level)) >= 0:
            own = table.slot0 + slot * SLOT_WORDS
            is_paid = own in paid
            taken, spent_us = table.budgets.expected(own, row, is_paid=is_paid)
            if not is_paid:
                paid.update(table.budgets.behind(own))
            self._queue(policy, slot, level, now_ns)
            calls, size, us, count = calls - (not is_paid), size - taken, us - spent_us, count + 1
        return count

    def let_paid_go(self, policy: QueuePolicy, slots: Sequence[int], now_ns: int) -> None:
        """Held calls of a batch whose head has just been charged."""
        table = self._table
        self._begin()
        for slot in slots:
            word = table.q[table.slot0 + slot * SLOT_WORDS]
            self._queue(policy, slot, word >> states.LEVEL_SHIFT & states.LEVEL_MASK, now_ns)

    def _queue(self, policy: QueuePolicy, slot: int, level: int, now_ns: int) -> None:
        table, q = self._table, self._table.q
        own = table.slot0 + slot * SLOT_WORDS
        table.held.let_go(slot, level, now_ns)
        turn = self._turn_again(policy, own, level)
        q[own + W_CHILD], q[own + W_TURN] = q[own + W_TURN], turn
        q[own] = q[own] & ~states.STATE_MASK | QUEUED  # <- opened here
        chain = level, q[own + W_CALL] >> states.CLASS_SHIFT & 1, turn
        table.rings.insert(*chain, slot, self._near.get(chain, -1))
        self._near[chain] = slot
        q[table.waiting_word] += 1

    def _turn_again(self, policy: QueuePolicy, own: int, level: int) -> int:
        """The turn of a call that was held; in turn, too, when its level has passed its own.

        (All at the level's turn, they would go one after the other, ahead of everybody else.)
        """
        table, q = self._table, self._table.q
        now = q[table.rings.turn_word + level]
        if not policy.in_turn:
            return now
        last = table.last_turn0 + (q[own + W_PRINCIPAL] & 0xFFFF_FFFF) * MAX_LEVELS + level
        turn = max(now, q[own + W_TURN], self._opened.get(last, -1) + 1)
        turn = min(turn, now + table.rings.turns - 1)
        self._opened[last] = turn
        q[last] = max(q[last], turn)
        return turn
