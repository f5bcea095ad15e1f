"""When the successor of a dead child is started: at once, unless they die one after the other.

    died before it was ready      0, 0.1, 0.2, 0.4 ... 5 s; where no user code runs, at most 0.5 s
    died within 1 s of ready      0, 0, 0, 0.1, 0.2, 0.25 s
    died while it served a call   0 ten times, then as above
    died later than that          0, and the count begins anew

What a call does to its handler is the call's fault: the others shall not wait longer for it. A
child that was ready once can start: the longest delays are for those that cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

SECOND_NS = 1_000_000_000
STEADY_NS = SECOND_NS  # who lived as long after its ready is no quick death
STEP_NS = SECOND_NS // 10


@dataclass(frozen=True, slots=True)
class Patience:
    """`free` deaths in a row are not delayed; then the delay doubles up to `most_ns`."""

    free: int
    most_ns: int

    def delay_ns(self, in_a_row: int) -> int:
        """The delay after the `in_a_row`-th death (1 is the first)."""
        over = in_a_row - self.free
        return 0 if over <= 0 else min(self.most_ns, STEP_NS << min(over - 1, 32))


USER_CODE = Patience(free=1, most_ns=5 * SECOND_NS)  # its start may take long, and fail for long
OUR_CODE = Patience(free=1, most_ns=SECOND_NS // 2)
QUICK = Patience(free=3, most_ns=SECOND_NS // 4)
SERVING = Patience(free=10, most_ns=SECOND_NS // 4)


class Restarts:
    """The deaths of one child: how many, and how long to wait after the last."""

    def __init__(self, runs_user_code: bool = False) -> None:
        self.count = 0
        self._starting = USER_CODE if runs_user_code else OUR_CODE
        self._failed_starts = 0  # in a row
        self._quick_deaths = 0  # in a row

    def died(self, *, ready_ns: int | None, serving: bool) -> int:
        """Count a death; the delay before the next start, in ns.

        `ready_ns`: how long it had been ready; None if it never was.
        """
        self.count += 1
        if ready_ns is None:
            self._failed_starts += 1
            return self._starting.delay_ns(self._failed_starts)
        self._failed_starts = 0
        if ready_ns >= STEADY_NS:
            self._quick_deaths = 0
            return 0
        self._quick_deaths += 1
        return (SERVING if serving else QUICK).delay_ns(self._quick_deaths)
