"""Levels of identities that the last sweep did not find, looked at between sweeps (Hadoop computes
them at each call).

    level = by its share of all ordinary identities' costs now: decayed, and charged since the sweep

An identity is unswept while its decayed cost is 0: it came since, or what it owed had decayed away.
All others keep the level of the sweep, as in Hadoop, and service users are level 0.

A flood that has just begun has a small share of all that was ever charged, and would go before who
asked for little for a long time. So, where the janitor is cautious (`strangers`),

    lately' = (lately + charged since the last look) * LATELY_FACTOR
    level   = the higher of that one and the one by its share of what was charged lately

and that goes for whom only the last sweep has found, too, until the next. What waits counts as
charged lately, at what a call of its caller costs in the mean: who has calls waiting keeps its
share, so that nobody who came after is taken for the only one.

A reader may have made a row at the level of the account that it was charged to before: until the
next sweep it goes no lower. Only levels that change are stored, and only of rows in use, which no
reader makes at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ...scheduling import decay
from ...scheduling.saturation import Int64s, saturating_sum
from ...shm.shared import Shared
from .strangers import Charged

EVERY_NS = 100_000_000  # while there is traffic
LATELY_FACTOR = 0.8  # at each look: a burst counts for about half a second
WORD_NS = 1  # about, to sum one word of the columns
MOST_BUSY = 0.02  # of a processor, for the sums of a large table
MOST_WAITING = 2.0**53  # cost of what waits, of one row


class UnsweptLevels:
    """`tick` looks, if it is time. Arrays have an element per identity row, shape (identities,)."""

    def __init__(self, shared: Shared) -> None:
        self._columns, self._rows = shared.columns, shared.names.identities.rows
        self._every_ns = max(EVERY_NS, int(self._columns.costs.size * WORD_NS / MOST_BUSY))
        self._given = np.zeros(len(self._rows), np.uint64)  # levels as the janitor left them
        self._least = self._given.copy()
        self._young = np.zeros(len(self._rows), bool)
        self._lately = np.zeros(len(self._rows), np.int64)  # costs
        self.look_next()

    def look_next(self) -> None:
        """At the next `tick`, whatever the time and whoever was charged."""
        self.charged: Charged | None = None  # as of the last look
        self._looked_ns, self._busy = 0, True

    def begin(self, levels: npt.NDArray[np.uint8]) -> None:
        """All rows have just been given these `levels`."""
        self._given = levels.astype(np.uint64)
        self._least[:] = 0

    def swept(self, young: npt.NDArray[np.bool_]) -> None:
        """A sweep found costs of these rows where the one before had found none."""
        self._young = young

    def next_ns(self) -> int | None:
        """When to look again; None: nobody was charged between the last two looks."""
        return self._looked_ns + self._every_ns if self._busy else None

    def tick(
        self,
        now_ns: int,
        thresholds: Sequence[float],
        service: Callable[[], list[int]],
        *,
        cautious: bool,
    ) -> bool:
        """Whether it was time, and somebody was charged. `service()`: rows of service users."""
        if now_ns - self._looked_ns < self._every_ns:
            return False
        before, charged = self.charged, self._columns.cost_totals()
        self._busy = before is None or not np.array_equal(charged, before)
        self._looked_ns, self.charged = now_ns, charged
        if cautious and before is not None:
            added = self._lately + decay.pending(charged, before)
            self._lately = (added * LATELY_FACTOR).astype(np.int64)
        if self._busy:
            self._publish(charged, self._lately if cautious else None, thresholds, service)
        return self._busy

    def _publish(
        self,
        charged: Charged,
        lately: Int64s | None,
        thresholds: Sequence[float],
        service: Callable[[], list[int]],
    ) -> None:
        seen, decayed = self._rows["seen"], self._rows["decayed"].astype(np.int64)
        unswept = (self._rows["hash"] != 0) & ((decayed == 0) & (charged != seen) | self._young)
        if not unswept.any():
            return
        exempt = service()
        unswept[exempt] = False
        levels = _levels(decay.current(charged, seen, decayed), exempt, thresholds)
        if lately is not None:
            lately = np.maximum(lately, self._waiting_costs(charged))
            levels = np.maximum(levels, _levels(lately, exempt, thresholds))
        published = self._rows["level"].copy()
        by_reader = published != self._given
        self._least[by_reader] = published[by_reader]
        wanted = np.where(unswept, np.maximum(levels, self._least), published)
        changed = wanted != published
        self._rows["level"][changed] = wanted[changed]
        self._given = wanted

    def _waiting_costs(self, charged: Charged) -> Int64s:
        """What the calls of each row that wait are likely to have been charged."""
        waiting: npt.NDArray[np.uint64] = self._rows["waiting"]
        costs = np.zeros(len(waiting), np.int64)
        some = np.flatnonzero(waiting)
        calls = np.maximum(self._columns.calls[:, some].sum(axis=0, dtype=np.uint64), 1)
        means = charged[some].astype(np.float64) / calls
        costs[some] = np.minimum(waiting[some] * means, MOST_WAITING)
        return costs


def _levels(costs: Int64s, exempt: list[int], thresholds: Sequence[float]) -> npt.NDArray[np.uint8]:
    """By each row's share of all costs but those of rows that are `exempt`."""
    costs = np.maximum(costs, 0)
    costs[exempt] = 0
    return decay.levels_of(costs, saturating_sum(costs), thresholds)
