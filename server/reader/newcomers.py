"""Names that have no row in the identity table yet: they have to earn one.

    before it has made `calls` calls, or one after a sweep   charged to an account that is there
    from then on                                             a row of its own, which begins at the
                                                             level of that account

So a fresh name for each call gives no fresh level, and takes no row: not even one that a sweep
finds, for it does not call again. A name that one reader has
seen is a newcomer to the next. What is remembered is bounded: a number for each of the last `most`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

MOST = 2048  # newcomers that one reader remembers
_CALLS = 0xFFFF_FFFF


class Newcomers:
    """`sweeps()` says how many sweeps there were. Keys are hashes of names, salted by Python."""

    def __init__(self, calls: int, sweeps: Callable[[], int], most: int = MOST) -> None:
        self._needed, self._sweeps, self._most = calls, sweeps, most
        self._seen: OrderedDict[int, int] = OrderedDict()  # sweeps at the first call << 32 | calls

    def __len__(self) -> int:
        return len(self._seen)

    def has_grown(self, key: int) -> bool:
        """Whether the name may have a row now; then it is forgotten here."""
        seen = self._seen.get(key)
        if seen is None or seen & _CALLS < self._needed:
            return False
        del self._seen[key]
        return True

    def count(self, key: int, calls: int = 1) -> None:
        """`calls` more of a newcomer."""
        if key not in self._seen:
            if len(self._seen) >= self._most:
                self._seen.popitem(last=False)
            self._seen[key] = self._sweeps() << 32
        elif self._seen[key] >> 32 < self._sweeps():
            calls = max(calls, self._needed)
        self._seen[key] += calls
        self._seen.move_to_end(key)
