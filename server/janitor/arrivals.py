"""Average arrivals of methods, for limits that are relative to them (`Rate.relative`).

Every second the janitor looks at what all readers have counted. What arrived since the last look,
as calls and request bytes per period of a row, is added to its limits from its next renewal on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...shm.limiter_counters import L_FLAGS, L_KEY, L_PERIOD
from ...shm.shared import Shared
from ...shm.terms import RELATIVE, Kind, kind_of, number_of

EVERY_NS = 1_000_000_000

Totals = npt.NDArray[np.uint64]


class ArrivalAverages:
    """Calls and bytes as of the last look, over all readers: shape (2, methods)."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._seen, self._looked_ns = self._totals(), 0

    def tick(self, now_ns: int) -> bool:
        """Once a second, while rates are relative; whether there was one."""
        passed_ns = now_ns - self._looked_ns
        if passed_ns < EVERY_NS:
            return False
        seen, self._seen, first = self._seen, self._totals(), not self._looked_ns
        self._looked_ns = now_ns
        rows = [] if first else self._relative_rows()
        for row in rows:
            self._tell(row, self._seen - seen, passed_ns, now_ns)
        return bool(rows)

    def _tell(self, row: int, arrived: Totals, passed_ns: int, now_ns: int) -> None:
        limiters, table = self._shared.table.limiters, self._shared.table
        key, period_ns = (int(limiters.rows[row, word]) for word in (L_KEY, L_PERIOD))
        if not key or not period_ns:
            return
        method = number_of(key) - (kind_of(key) is Kind.OTHERS)
        calls, size = (int(count) * period_ns / passed_ns for count in arrived[:, method])
        with table.queue_lock:
            if limiters.q[limiters.at(row) + L_KEY] == key:
                limiters.averaged(row, (calls, size), now_ns)
                table.held.look(limiters.at(row))

    def _relative_rows(self) -> list[int]:
        rows = self._shared.table.limiters.rows
        relative = (rows[:, L_KEY] != 0) & (rows[:, L_FLAGS] & np.uint64(RELATIVE) != 0)
        found: list[int] = np.flatnonzero(relative).tolist()
        return found

    def _totals(self) -> Totals:
        arrived = self._shared.columns.arrived
        names = ("calls", "bytes")
        return np.stack([arrived[name].sum(axis=0, dtype=np.uint64) for name in names])
