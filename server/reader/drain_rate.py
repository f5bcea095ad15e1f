"""How fast the queue drains: for the `retry_after_ms` of a refusal, and for a reader's nap."""

from __future__ import annotations

from ...shm.layout import SHARD
from ...shm.shared import Shared

SAMPLE_NS = 100_000_000  # the rate is measured over at least this long
STALE_NS = 1_000_000_000  # over so long a time it says nothing about now
LEAST_MS, MOST_MS = 10, 60_000
UNKNOWN_MS = 1000  # when it is not known, or nothing drains


class DrainRate:
    """Reads the shard's counters without a lock: calls ever drawn, and calls that wait."""

    def __init__(self, shared: Shared) -> None:
        self._q = shared.segment.q
        self._drawn = shared.segment.word(shared.segment.layout.shard, SHARD, "drawn")
        self._waiting = shared.segment.word(shared.segment.layout.shard, SHARD, "waiting")
        self._last_ns, self._last_drawn = 0, 0
        self._per_second = 0.0

    def observe(self, now_ns: int) -> None:
        """Whenever calls are offered: so the rate is known by the time that one is refused."""
        passed_ns = now_ns - self._last_ns
        if passed_ns < SAMPLE_NS:
            return
        drawn = self._q[self._drawn]
        counted = drawn - self._last_drawn
        self._per_second = counted / passed_ns * 1e9 if passed_ns < STALE_NS else 0.0
        self._last_ns, self._last_drawn = now_ns, drawn

    def retry_after_ms(self) -> int:
        """How long the calls that wait now will take at the present rate, within bounds."""
        if self._per_second < 1:
            return UNKNOWN_MS
        return min(MOST_MS, max(LEAST_MS, self.left_ns() // 1_000_000))

    def left_ns(self) -> int:
        """How long the handlers have calls to run that wait now; 0 where the rate is not known."""
        if self._per_second < 1:
            return 0
        return int(self._q[self._waiting] / self._per_second * 1e9)
