"""A short busy look for what is expected within microseconds, instead of a sleep and a wake-up.

Going to sleep and being woken costs a process 30 to 60 us; a call that takes less is answered
sooner if its reader keeps looking. Who looks in vain looks less often: after n misses in a row the
next n occasions are let pass, at most MOST_PASSED.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_PASSED = 15


class Watch:
    """Looks for at most `watch_ns` at a time; 0: never."""

    __slots__ = ("_clock", "_misses", "_to_pass", "_watch_ns")

    def __init__(self, watch_ns: int, clock: Callable[[], int]) -> None:
        self._watch_ns, self._clock = watch_ns, clock
        self._misses = self._to_pass = 0

    def sees(self, look: Callable[[], bool]) -> bool:
        """Whether `look()` came true in time; False at once on an occasion that is let pass."""
        if self._to_pass:
            self._to_pass -= 1
            return False
        if not self._watch_ns:
            return False
        clock = self._clock
        until_ns = clock() + self._watch_ns
        while clock() < until_ns:
            if look():
                self._misses = 0
                return True
        self._misses = self._to_pass = min(MOST_PASSED, 2 * self._misses + 1)
        return False
