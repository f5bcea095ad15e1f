"""The calls in flight, per identity that is charged for them: read from the slots at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...shm import states
from ...shm.layout import SLOT, word_of
from ...shm.shared import Shared

_IDENTITY = word_of(SLOT, "identity")
_LOW = np.uint64(0xFFFF_FFFF)

Counts = npt.NDArray[np.int64]


class InFlight(NamedTuple):
    """Shape (identities,) each; `waiting` are queued and held."""

    waiting: Counts
    held: Counts
    running: Counts


def in_flight(shared: Shared) -> InFlight:
    """How many calls of each identity wait, are held, and run."""
    words, count = shared.table.words, shared.geometry.identities
    state = words[:, 0] & np.uint64(states.STATE_MASK)
    identity = words[:, _IDENTITY] & _LOW

    def counted(wanted: int) -> Counts:
        rows = identity[state == np.uint64(wanted)]
        return np.bincount(rows[rows < count].astype(np.intp), minlength=count)

    held = counted(states.HELD)
    return InFlight(counted(states.QUEUED) + held, held, counted(states.RUNNING))
