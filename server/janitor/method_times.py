"""How long each method takes: what the claim goes by, and what time costs are reserved at.

    expected'  = max(mean of the last second's calls, 0.9 * expected)
    mean'      = half of mean, half of the last second's mean      of times, and of costs

They change only in a second in which calls of the method ended: idleness is no evidence. Handlers
adjust `expected_ns` at each call (`shm.expected`); the janitor does so once a second, and leaves
alone what has just been adjusted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...shm.columns import MASK
from ...shm.layout import METHOD, word_of
from ...shm.shared import Shared

EVERY_NS = 1_000_000_000
KEPT = 0.9  # of the expected time, per second with calls
_EXPECTED, _MEAN = word_of(METHOD, "expected_ns"), word_of(METHOD, "mean_ns")
_MEAN_COST = word_of(METHOD, "mean_cost")

Totals = npt.NDArray[np.uint64]


class MethodTimes:
    """Calls, nanoseconds and costs as of the last look, over all handlers: shape (methods,)."""

    def __init__(self, shared: Shared) -> None:
        self._methods, self._columns = shared.names.methods, shared.columns
        self._q = shared.segment.q
        self._seen = self._totals()
        self._looked_ns = 0

    def tick(self, now_ns: int) -> bool:
        """Once a second; whether it was time."""
        if now_ns - self._looked_ns < EVERY_NS:
            return False
        self._looked_ns = now_ns
        seen, self._seen = self._seen, self._totals()
        calls, took, cost = (now - before for now, before in zip(self._seen, seen, strict=True))
        for row in np.flatnonzero(calls).tolist():
            count = int(calls[row])
            self._adjust(row, int(took[row]) // count, int(cost[row].astype(np.int64)) // count)
        return True

    def _adjust(self, row: int, recent_ns: int, recent_cost: int) -> None:
        base = self._methods.first + row * self._methods.row_words
        expected_ns, mean_ns = self._q[base + _EXPECTED], self._q[base + _MEAN]
        lowered = max(recent_ns, int(expected_ns * KEPT))
        if self._q[base + _EXPECTED] == expected_ns:
            self._q[base + _EXPECTED] = lowered
        self._q[base + _MEAN] = (mean_ns + recent_ns) // 2 if mean_ns else recent_ns
        mean_cost = int(np.uint64(self._q[base + _MEAN_COST]).astype(np.int64))
        mean_cost = (mean_cost + recent_cost) // 2 if mean_cost else recent_cost
        self._q[base + _MEAN_COST] = mean_cost & MASK

    def _totals(self) -> tuple[Totals, Totals, Totals]:
        methods = self._columns.methods
        calls, spent_ns, cost = (
            methods[name].sum(axis=0, dtype=np.uint64) for name in ("calls", "spent_ns", "cost")
        )
        return calls, spent_ns, cost
