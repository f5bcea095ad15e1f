"""How fast the queue drains: for `retry_after_ms`, for expected waits, and for a reader's nap."""

from __future__ import annotations

from ...scheduling import backoff
from ...shm.columns import Counter
from ...shm.layout import GROUP_SHIFT
from ...shm.shared import Shared

SAMPLE_NS = 100_000_000  # the rate is measured over at least this long
STALE_NS = 1_000_000_000  # over so long a time it says nothing about now
LEAST_MS, MOST_MS = 10, 60_000
UNKNOWN_MS = 1000  # when it is not known, or nothing drains


class DrainRate:
    """That of one group of handlers.

    Reads counters without a lock: calls ever drawn, calls that wait, calls run and their time.
    `per_second` is the rate of the last sample; 0 = not known. It is what the handlers can do only
    if they had something to do all the time: more calls than handlers waited when the sample began
    and when it ended.
    """

    def __init__(self, shared: Shared, group: int = 0) -> None:
        self._q = shared.segment.q
        draws = shared.table.group_draws[group]
        self._drawn, self._waiting = draws.drawn_word, draws.waiting_word
        self._last_ns, self._last_drawn = 0, 0
        self.per_second = 0.0
        self._waited = self._is_full = False
        self._working = shared.working_of(group)
        self._mean_ns = 0.0
        first, handlers = shared.geometry.readers, shared.geometry.handlers_of(group)
        rows = slice(first + handlers.start, first + handlers.stop)
        self._handlers = shared.columns.counters[rows]
        self._run, self._busy_ns = self._totals()

    def observe(self, now_ns: int) -> None:
        """Whenever calls are offered: so the rate is known by the time that one is refused."""
        passed_ns = now_ns - self._last_ns
        if passed_ns < SAMPLE_NS:
            return
        drawn = self._q[self._drawn]
        counted = drawn - self._last_drawn
        self.per_second = counted / passed_ns * 1e9 if passed_ns < STALE_NS else 0.0
        waits = self._q[self._waiting] > self._working
        self._waited, self._is_full = waits, waits and self._waited
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
        """How long the handlers have calls to run that wait now; 0 where it is not known how fast
        they can be: a few calls that came together are not a long queue because few came before."""
        if not self._is_full or self.per_second < 1:
            return 0
        return int(self._q[self._waiting] / self.per_second * 1e9)

    def _totals(self) -> tuple[int, int]:
        """Calls that the handlers ever ran, and their ns."""
        run, busy_ns = self._handlers[:, [Counter.RUN, Counter.BUSY_NS]].sum(axis=0).tolist()
        return run, busy_ns


class DrainRates:
    """Those of all groups of handlers."""

    def __init__(self, shared: Shared) -> None:
        self._of_groups = [DrainRate(shared, group) for group in range(shared.geometry.groups)]

    def of(self, place: int) -> DrainRate:
        """That of the group to which the ring of that number belongs."""
        return self._of_groups[place >> GROUP_SHIFT]

    def observe(self, now_ns: int) -> None:
        """Whenever calls are offered."""
        for rate in self._of_groups:
            rate.observe(now_ns)

    def left_ns(self) -> int:
        """How long the handlers of every group have calls to run; 0 where that is not known."""
        return min(rate.left_ns() for rate in self._of_groups)
