"""Which held calls will not be let go in time: for a server that ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .limiter_counters import L_OPENED
from .rings import SLOT_WORDS, W_SEQ, W_TURN, Slots
from .slot_limiters import W_HELD_BY
from .states import HELD

if TYPE_CHECKING:
    from .table import CallTable


def held_beyond(table: CallTable, until_ns: int, now_ns: int) -> set[int]:
    """The held calls, of all readers, that wait longer than until `until_ns` by what is known now:
    as many as their limiter lets go before are served.

    Takes no lock: what changes meanwhile is found by the next look, and whoever withdraws a call
    asks its state again.
    """
    words, limiters = table.words, table.limiters
    held = table.recovery.slots_in(HELD)
    by = words[held, W_HELD_BY].astype(np.int64) - 1
    late: set[int] = set()
    for row in np.unique(by[(by >= 0) & (by < limiters.count)]).tolist():
        theirs = held[by == row]
        at = limiters.at(row)
        count = max(0, limiters.goes_before(at, until_ns, now_ns) - table.q[at + L_OPENED])
        late.update(_in_turn(table, theirs)[count:].tolist())
    for slot in held.tolist():
        if (
            slot not in late
            and table.blockers.opens_ns(table.slot0 + slot * SLOT_WORDS) >= until_ns
        ):
            late.add(slot)
    return late


def _in_turn(table: CallTable, slots: Slots) -> Slots:
    words = table.words
    return slots[np.lexsort((words[slots, W_SEQ], words[slots, W_TURN]))]
