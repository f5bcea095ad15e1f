"""How long each method takes: what the claim goes by, and what time costs are reserved at.

    expected'  = max(mean of the last second's calls, 0.9 * expected)      a decaying maximum
    mean'      = half of mean, half of the last second's mean

Both change only in a second in which calls of the method ended: idleness is no evidence. Handlers
raise `expected_ns` themselves, at once; the janitor only lowers it, and leaves it where that has
just happened.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...shm.layout import METHOD, word_of
from ...shm.shared import Shared

EVERY_NS = 1_000_000_000
KEPT = 0.9  # of the expected time, per second with calls
_EXPECTED, _MEAN = word_of(METHOD, "expected_ns"), word_of(METHOD, "mean_ns")


class MethodTimes:
    """Calls and nanoseconds as of the last look, over all handlers: shape (methods,) each."""

    def __init__(self, shared: Shared) -> None:
        self._methods, self._columns = shared.names.methods, shared.columns
        self._q = shared.segment.q
        self._calls, self._spent_ns = self._totals()
        self._looked_ns = 0

    def tick(self, now_ns: int) -> bool:
        """Once a second; whether it was time."""
        if now_ns - self._looked_ns < EVERY_NS:
            return False
        self._looked_ns = now_ns
        calls, spent_ns = self._totals()
        gained, took = calls - self._calls, spent_ns - self._spent_ns
        self._calls, self._spent_ns = calls, spent_ns
        for row in np.flatnonzero(gained).tolist():
            self._adjust(row, int(took[row]) // int(gained[row]))
        return True

    def _adjust(self, row: int, recent_ns: int) -> None:
        base = self._methods.first + row * self._methods.row_words
        expected_ns, mean_ns = self._q[base + _EXPECTED], self._q[base + _MEAN]
        lowered = max(recent_ns, int(expected_ns * KEPT))
        if self._q[base + _EXPECTED] == expected_ns:
            self._q[base + _EXPECTED] = lowered
        self._q[base + _MEAN] = (mean_ns + recent_ns) // 2 if mean_ns else recent_ns

    def _totals(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        methods = self._columns.methods
        return (
            methods["calls"].sum(axis=0, dtype=np.uint64),
            methods["spent_ns"].sum(axis=0, dtype=np.uint64),
        )
