"""What the claim stamps of a method say about its limit: arithmetic, apart from the limiters' own.

A period is `stamp // period_ns`, as the limiters count it: all of them are aligned to the clock.
Stamps are monotonic ns, in any order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

SECOND_NS = 1_000_000_000


def per_period(stamps: Iterable[int], period_ns: int = SECOND_NS) -> dict[int, int]:
    """Calls of each period from the first to the last that has any, which may be cut short."""
    counts = Counter(stamp // period_ns for stamp in stamps)
    return {at: counts[at] for at in range(min(counts), max(counts) + 1)} if counts else {}


def whole(counts: dict[int, int], without: Collection[int] = ()) -> list[int]:
    """The counts but for the first and the last period, and for those in `without`."""
    return [counts[at] for at in list(counts)[1:-1] if at not in without]


def most_within(stamps: Iterable[int], window_ns: int = SECOND_NS) -> int:
    """Most calls of any window, which has its begin but not its end."""
    ordered, first, most = sorted(stamps), 0, 0
    for last, stamp in enumerate(ordered):
        while stamp - ordered[first] >= window_ns:
            first += 1
        most = max(most, last - first + 1)
    return most


def without_room(
    stamps: Sequence[int], limit: int, size: int = 1, period_ns: int = SECOND_NS
) -> int:
    """Calls of `size` units each that went while `limit` units, or more, were used or owed."""
    over = used = period = 0
    for stamp in sorted(stamps):
        used = max(0, used - limit * (stamp // period_ns - period))
        period = stamp // period_ns
        over += used >= limit
        used += size
    return over
