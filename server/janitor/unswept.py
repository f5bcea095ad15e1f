"""Levels of identities that the last sweep did not find, looked at between sweeps (Hadoop computes
them at each call).

    level = by its share of all ordinary identities' costs now: decayed, and charged since the sweep

An identity is unswept while its decayed cost is 0: it came since, or what it owed had decayed away.
All others keep the level of the sweep, as in Hadoop, and service users are level 0.

A reader may have made a row at the level of the account that it was charged to before: until the
next sweep it goes no lower. Only levels that change are stored, and only of rows in use, which no
reader makes at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ...scheduling import decay
from ...scheduling.saturation import saturating_sum
from ...shm.shared import Shared

EVERY_NS = 100_000_000  # while there is traffic
WORD_NS = 1  # about, to sum one word of the columns
MOST_BUSY = 0.02  # of a processor, for the sums of a large table


class UnsweptLevels:
    """`tick` looks, if it is time. Arrays have an element per identity row, shape (identities,)."""

    def __init__(self, shared: Shared) -> None:
        self._columns, self._rows = shared.columns, shared.names.identities.rows
        self._every_ns = max(EVERY_NS, int(self._columns.costs.size * WORD_NS / MOST_BUSY))
        self._given = np.zeros(len(self._rows), np.uint64)  # levels as the janitor left them
        self._least = self._given.copy()
        self.look_next()

    def look_next(self) -> None:
        """At the next `tick`, whatever the time and whoever was charged."""
        self.charged: npt.NDArray[np.uint64] | None = None  # as of the last look
        self._looked_ns, self._busy = 0, True

    def begin(self, levels: npt.NDArray[np.uint8]) -> None:
        """All rows have just been given these `levels`."""
        self._given = levels.astype(np.uint64)
        self._least[:] = 0

    def next_ns(self) -> int | None:
        """When to look again; None: nobody was charged between the last two looks."""
        return self._looked_ns + self._every_ns if self._busy else None

    def tick(
        self, now_ns: int, thresholds: Sequence[float], service: Callable[[], list[int]]
    ) -> bool:
        """Whether it was time, and somebody was charged. `service()`: rows of service users."""
        if now_ns - self._looked_ns < self._every_ns:
            return False
        charged = self._columns.cost_totals()
        self._busy = self.charged is None or not np.array_equal(charged, self.charged)
        self._looked_ns, self.charged = now_ns, charged
        if self._busy:
            self._publish(charged, thresholds, service)
        return self._busy

    def _publish(
        self,
        charged: npt.NDArray[np.uint64],
        thresholds: Sequence[float],
        service: Callable[[], list[int]],
    ) -> None:
        seen, decayed = self._rows["seen"], self._rows["decayed"].astype(np.int64)
        unswept = (self._rows["hash"] != 0) & (decayed == 0) & (charged != seen)
        if not unswept.any():
            return
        costs = np.maximum(decay.current(charged, seen, decayed), 0)
        exempt = service()
        costs[exempt] = 0  # nobody's share
        unswept[exempt] = False
        levels = decay.levels_of(costs, saturating_sum(costs), thresholds)
        published = self._rows["level"].copy()
        by_reader = published != self._given
        self._least[by_reader] = published[by_reader]
        wanted = np.where(unswept, np.maximum(levels, self._least), published)
        changed = wanted != published
        self._rows["level"][changed] = wanted[changed]
        self._given = wanted
