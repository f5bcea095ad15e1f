"""The turn that a call gets: the one after its principal's last, at each level.

Turns are told by the level's own count here. Where express handlers serve SHORT calls (`express`),
the turn of a principal's last SHORT call is kept apart, as it stands in the ring, which is `lead`
turns ahead (`rings`): while that ring moves on, it falls behind as if the level had moved. So who
had many short calls served beside long ones has no more to wait for with the next, and who had none
goes before them once, not as often as they were served. All of it with the queue lock held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .layout import WORD
from .states import SHORT

if TYPE_CHECKING:
    from .table import CallTable


class Turns:
    """Of one table. Rows are those of principals, levels numbers of rings."""

    def __init__(self, table: CallTable) -> None:
        layout = table.segment.layout
        self._q, self._rings = table.q, table.rings
        self._numbers, self._lead = table.geometry.ring_numbers, table.rings.lead_word
        self._last0, self._short0 = table.last_turn0, layout.last_short // WORD

    def last(self, row: int, level: int) -> int:
        """The turn of its last call there, by the level's count; that of a SHORT one may be gone,
        and is below the level's then."""
        q, at = self._q, row * self._numbers + level
        if not self._lead:
            return q[self._last0 + at]
        return max(q[self._last0 + at], q[self._short0 + at] - q[self._lead + level])

    def note(self, row: int, level: int, cls: int, turn: int) -> None:
        """Its last call there, of that class, has `turn`."""
        q, at = self._q, row * self._numbers + level
        if self._lead and cls == SHORT:
            q[self._short0 + at] = turn + q[self._lead + level]
        else:
            q[self._last0 + at] = turn

    def after_last(self, row: int, level: int, cls: int) -> int:
        """The turn of a call that arrives now, by the level's count: its last one from now on."""
        q, at, now = self._q, row * self._numbers + level, self._q[self._rings.turn_word + level]
        last, lead = q[self._last0 + at], q[self._lead + level] if self._lead else 0
        if self._lead and (short := q[self._short0 + at] - lead) > last:
            last = short
        turn = last + 1
        if turn < now:
            turn = now
        elif turn - now >= self._rings.turns:
            turn = now + self._rings.turns - 1
        if self._lead and cls == SHORT:
            q[self._short0 + at] = turn + lead
        else:
            q[self._last0 + at] = turn
        return turn
