"""The bits that say which handlers wait for calls, and which are taken by a LONG one (`express`).

An index like the rings: derived here from the slots' words and the process records, by who rebuilds
these (queue lock held).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from . import states
from .layout import PROCESS, WORD, word_of
from .processes import process_index
from .rings import W_CALL, Slots

if TYPE_CHECKING:
    from .table import CallTable

_ROW_WORDS = PROCESS.itemsize // WORD
_STATUS, _LEAVING = word_of(PROCESS, "status"), word_of(PROCESS, "leaving")


def rebuild_bits(table: CallTable, claimed: Slots) -> None:
    """`claimed` are the slots that some handler has claimed and not answered."""
    q, long, busy = table.q, _owners_of_long(table, claimed), _owners(table.words[claimed])
    first = table.segment.layout.processes // WORD
    for handler in range(table.geometry.handlers):
        row = first + process_index(table.geometry, "handler", handler) * _ROW_WORDS
        is_absent = q[row + _LEAVING] or q[row + _STATUS] != states.Life.READY
        is_taken = is_absent or handler in long
        # A spurious wake harms nobody, a lost one does: of a place that nobody serves, or not yet,
        # it would be lost, and of who has claimed calls, and will claim again before it sleeps.
        is_awake = is_absent or handler in busy
        word, bit = handler >> 6, 1 << (handler & 63)
        idle, taken = table.idle_word + word, table.taken_word + word
        q[idle] = q[idle] & ~bit if is_awake else q[idle] | bit
        q[taken] = q[taken] | bit if is_taken else q[taken] & ~bit


def _owners_of_long(table: CallTable, claimed: Slots) -> set[int]:
    """The handlers that have claimed LONG calls."""
    words = table.words[claimed]
    long = words[:, W_CALL] >> np.uint64(states.CLASS_SHIFT) & np.uint64(1) == states.LONG
    return _owners(words[long])


def _owners(words: npt.NDArray[np.uint64]) -> set[int]:
    """The handlers that have claimed slots with these words."""
    owners = words[:, 0] >> np.uint64(states.OWNER_SHIFT) & np.uint64(states.OWNER_MASK)
    found: set[int] = set(owners.tolist())
    return found
