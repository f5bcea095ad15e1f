"""The level of strangers: callers of whom two looks of the janitor have not found costs yet.

    strangers' level = the lowest level in use: that of the heaviest of those who have costs

What they will cost nobody knows, and who is alone has the lowest level however little it asks for:
at level 0 they would go before everybody known, until the next look. At the lowest level in use
they take turns with the heaviest, and with each other. One look is too few: what it finds may have
begun a moment before. Where callers do not take turns, or are not
newcomers at first (by Hadoop's rules both), or where levels do not follow from shares of the cost,
strangers have level 0, as Hadoop gives it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...shm.layout import SHARD
from ...shm.shared import Shared

Charged = npt.NDArray[np.uint64]  # an element per identity row


class Strangers:
    """`meet` is called after levels were published. Readers look at `looked` of a row until it
    is set, and at the strangers' level until then (`server.reader.accounts`)."""

    def __init__(self, shared: Shared) -> None:
        self._q = shared.segment.q
        self._rows, self._levels = shared.names.identities.rows, shared.geometry.levels
        self._word = shared.segment.word(shared.segment.layout.shard, SHARD, "strangers_level")
        self._found = np.zeros(len(self._rows), bool)  # whose costs the last look found

    def meet(self, charged: Charged, service: Sequence[int], *, cautious: bool, look: bool) -> None:
        """Who has costs, and had some at the last look, is no stranger from now on.

        `charged` is what the columns sum to. `service`: rows of service users. `look`: whether this
        is one; levels are published at sweeps and reloads, too.
        """
        rows, before = self._rows, self._found
        found = rows["hash"] != 0
        found &= (rows["decayed"] != 0) | (charged != rows["seen"])
        if look:
            self._found = found
        levels = rows["level"].copy()
        ordinary = found & (levels < self._levels)  # none in a lane
        ordinary[list(service)] = False
        lowest = int(levels[ordinary].max()) if cautious and ordinary.any() else 0
        self._q[self._word] = lowest
        rows["looked"][found & before if cautious else found] = 1  # <- after its level

    def meet_all(self) -> None:
        """Nobody is a stranger: levels do not follow from shares of the cost."""
        self._q[self._word] = 0
        self._rows["looked"][self._rows["hash"] != 0] = 1
