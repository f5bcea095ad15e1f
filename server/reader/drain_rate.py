"""How fast the queue drains: for `retry_after_ms`, for expected waits, and for a reader's nap."""

from __future__ import annotations

from ...scheduling import backoff
from ...shm.columns import Counter
from ...shm.layout import SHARD
from ...shm.shared import Shared

SAMPLE_NS = 100_000_000  # the rate is measured over at least this long
STALE_NS = 1_000_000_000  # over so long a time it says nothing about now
LEAST_MS, MOST_MS = 10, 60_000
UNKNOWN_MS = 1000  # when it is not known, or nothing drains


class DrainRate:
    """Reads counters without a lock: calls ever drawn, calls that wait, calls run and their time.

    `per_second` is the rate of the last sample; 0 = not known.
    """

    def __init__(self, shared: Shared) -> None:
        self._q = shared.segment.q
        self._drawn = shared.segment.word(shared.segment.layout.shard, SHARD, "drawn")
        self._waiting = shared.segment.word(shared.segment.layout.shard, SHARD, "waiting")
        self._last_ns, self._last_drawn = 0, 0
        self.per_second = 0.0
        self._mean_ns = 0.0
        first = shared.geometry.readers
        self._handlers = shared.columns.counters[first : first + shared.geometry.handlers]
        self._run, self._busy_ns = self._totals()

    def observe(self, now_ns: int) -> None:
        """Whenever calls are offered: so the rate is known by the time that one is refused."""
        passed_ns = now_ns - self._last_ns
        if passed_ns < SAMPLE_NS:
            return
        drawn = self._q[self._drawn]
        counted = drawn - self._last_drawn
        self.per_second = counted / passed_ns * 1e9 if passed_ns < STALE_NS else 0.0
        self._last_ns, self._last_drawn = now_ns, drawn
        run, busy_ns = self._totals()
        if run > self._run:
            self._mean_ns = (busy_ns - self._busy_ns) / (run - self._run)
        self._run, self._busy_ns = run, busy_ns

    def mean_ns(self, now_ns: int) -> float:
        """What a call took of late; 0 if that is not known, or too long ago."""
        return self._mean_ns if now_ns - self._last_ns < STALE_NS else 0.0

    def retry_after_ms(self) -> int:
        """How long the calls that wait now will take at the present rate, within bounds."""
        if self.per_second < 1:
            return UNKNOWN_MS
        waiting = self._q[self._waiting]
        return backoff.retry_after_ms(waiting, self.per_second, LEAST_MS, MOST_MS)

    def left_ns(self) -> int:
        """How long the handlers have calls to run that wait now; 0 where the rate is not known."""
        if self.per_second < 1:
            return 0
        return int(self._q[self._waiting] / self.per_second * 1e9)

    def _totals(self) -> tuple[int, int]:
        """Calls that the handlers ever ran, and their ns."""
        run, busy_ns = self._handlers[:, [Counter.RUN, Counter.BUSY_NS]].sum(axis=0).tolist()
        return run, busy_ns
