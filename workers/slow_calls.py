"""One line in the log for each call that took far longer than its method does: `log.slow-rpc`.

The rule stands in `scheduling.slow_calls`. It looks at the calls of all handlers, which takes some
microseconds; so the limit of a method is kept for a while, and made anew for a call above it.
"""

from __future__ import annotations

import logging

from ..scheduling.slow_calls import slow_above
from ..shm.columns import Counter
from ..shm.shared import Shared
from .context import Call

log = logging.getLogger("faircall.handler")

KEPT_FOR = 64  # calls of the method by this handler


class SlowCalls:
    """Those of handler `number`, whose counters are `counts`."""

    def __init__(self, shared: Shared, number: int, counts: memoryview, threshold_ms: int) -> None:
        self._columns, self._number, self._counts = shared.columns, number, counts
        self._threshold_ns = threshold_ms * 1_000_000
        self._limits: dict[int, tuple[int, float]] = {}  # method -> calls left, limit in ns

    def look(self, method: int, call: Call, spent_ns: int) -> None:
        """`call` of row `method`, which is not counted yet, took `spent_ns`."""
        left, limit_ns = self._limits.get(method, (0, 0.0))
        if spent_ns > limit_ns or not left:
            left, limit_ns = KEPT_FOR, self._limit_ns(method)
        self._limits[method] = left - 1, limit_ns
        self._columns.square(self._number, method, spent_ns)
        if spent_ns > limit_ns:
            self._counts[Counter.SLOW] += 1
            fields = {"method": call.method, "user": call.user, "took_ms": spent_ns / 1e6}
            log.warning("slow call", fields)

    def _limit_ns(self, method: int) -> float:
        """By all calls before the one at hand."""
        count, total_ns, squares = self._columns.samples(method)
        return slow_above(count, total_ns, squares, self._threshold_ns)
