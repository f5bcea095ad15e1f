"""What a call costs in the end, in place of what it was charged before: both words, or neither.

Two words change together: the caller's in this process's cost column, and the slot's `charged`. A
process may be killed between any two stores, so it first writes down what both will be:

    settle_total, settle_slot, settle_cost    prepared; nothing counts yet
    settle_column                             <- decided: from here on it is done, by whomever
    the column's word, the slot's word        what was written down
    settle_column = 0                         done

`redo` finishes what a dead process had decided. It may be repeated. The call is charged exactly
once whatever happens: what was charged is kept with it, and a second run pays the difference.
"""

from __future__ import annotations

from .columns import MASK, Columns
from .layout import PROCESS, SLOT, WORD, word_of
from .segment import Segment

_P = {name: word_of(PROCESS, name) for name in PROCESS.names or ()}
_CHARGED, _IDENTITY = word_of(SLOT, "charged"), word_of(SLOT, "identity")
_PROCESS_WORDS = PROCESS.itemsize // WORD


class Settlement:
    """That of the process with index `process`, which is this one."""

    def __init__(self, segment: Segment, columns: Columns, process: int) -> None:
        self._q = segment.q
        self._costs = columns.cost_word(process)
        self._base = _base(segment, process)

    def settle(self, own: int, cost: int) -> None:
        """The call whose slot's words begin at `own`, and which is this process's, costs `cost`."""
        q, base = self._q, self._base
        column = self._costs + (q[own + _IDENTITY] & 0xFFFF_FFFF)
        charged = own + _CHARGED
        q[base + _P["settle_total"]] = total = q[column] + cost - q[charged] & MASK
        q[base + _P["settle_slot"]] = charged
        q[base + _P["settle_cost"]] = cost & MASK
        q[base + _P["settle_column"]] = column  # <- decided
        q[column] = total
        q[charged] = cost & MASK
        q[base + _P["settle_column"]] = 0  # <- done


def redo(segment: Segment, process: int) -> bool:
    """Finish the settlement of a `process` that is dead; whether there was one."""
    q, base = segment.q, _base(segment, process)
    column = q[base + _P["settle_column"]]
    if column:
        q[column] = q[base + _P["settle_total"]]
        q[q[base + _P["settle_slot"]]] = q[base + _P["settle_cost"]]
        q[base + _P["settle_column"]] = 0
    return bool(column)


def _base(segment: Segment, process: int) -> int:
    return segment.layout.processes // WORD + process * _PROCESS_WORDS
