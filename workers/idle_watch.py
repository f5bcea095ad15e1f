"""A busy look for the next call, instead of a sleep and a wake-up, while calls come close together.

To let a processor fall idle and to wake it takes as long as a short call: where one call follows
the other on one connection, half of the time went into waking their handler.

Whether to look is told by the last gaps between a handler's having nothing to do and being rung: a
*score* goes up with each whose end a look would have seen, and down with each that was longer; by
far the most if it was looked for in vain. So calls that come by chance are seldom looked for, and
of a long row one gap may be longer. Each look offers the processor to whoever else wants it; what
is seen too late for that reason counts as not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable

ENOUGH = 4  # the least score with which it looks
LONG = 2  # by so much the score goes down for a long gap, but not below 0
VAIN = 12  # and for a look in vain
MOST = VAIN + ENOUGH
SLEPT = 2  # times the limit: a gap that was slept through is longer, by the wake-up


class IdleWatch:
    """Looks for at most `limit_ns` at a time; 0: never."""

    __slots__ = ("_clock", "_limit_ns", "_score", "_since_ns")

    def __init__(self, limit_ns: int, clock: Callable[[], int]) -> None:
        self._limit_ns, self._clock = limit_ns, clock
        self._score = self._since_ns = 0

    def begin(self) -> None:
        """There is nothing to do from now on."""
        self._since_ns = self._clock()

    @property
    def is_worth_it(self) -> bool:
        """Whether something is to be expected within the limit."""
        return self._score >= ENOUGH

    def sees(self, look: Callable[[], bool]) -> bool:
        """Whether `look()` came true in time."""
        clock, now_ns = self._clock, self._since_ns
        until_ns = now_ns + self._limit_ns
        while now_ns < until_ns:
            if look():
                self._score = min(MOST, self._score + 1)
                return True
            os.sched_yield()
            now_ns = clock()
        self._score = max(0, self._score - VAIN)
        return False

    def slept(self) -> None:
        """What there is to do has ended a sleep."""
        if self._clock() - self._since_ns < SLEPT * self._limit_ns:
            self._score = min(MOST, self._score + 1)
        else:
            self._score = max(0, self._score - LONG)
