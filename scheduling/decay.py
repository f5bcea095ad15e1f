"""The arithmetic of decayed costs (Hadoop: `DecayRpcScheduler`, HADOOP-10281), over arrays of rows.

Each row is an identity. `totals` only ever grows: all that the row was charged. A sweep folds what
was charged since the last one (`seen`) into the decayed cost, and a level follows from a share:

    decayed' = trunc((decayed + totals - seen) * factor)        seen' = totals
    share    = decayed / sum of decayed          (0 while the sum is not positive)
    level    = the highest i with share >= thresholds[i - 1], else 0

Costs become doubles *before* the multiplication and the division, as in Java; so every result here
agrees with Hadoop's to the last bit, and `levels_of` with `level_of`. Thresholds may be in any
order. The default ones halve: 2^i / 2^(levels-1), which for four levels is exactly 12.5, 25, 50 %.
A share equal to a threshold has reached it, so two users of 50 % each are both in the last level.

Differs in two ways: sums saturate instead of wrapping (`saturation.py`), and a sweep that comes
late counts the sweeps it missed instead of leaving them to a timer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .saturation import Int64s, saturating_add

DEFAULT_FACTOR = 0.5
DEFAULT_PERIOD_MS = 5000


def default_thresholds(levels: int) -> list[float]:
    """Shares at which levels 1 to levels-1 begin, shape (levels-1,)."""
    return [2.0**level / 2.0 ** (levels - 1) for level in range(levels - 1)]


def pending(totals: NDArray[np.int64 | np.uint64], seen: NDArray[np.int64 | np.uint64]) -> Int64s:
    """What was charged since `seen`, shape (rows,); right across a wrap of the 64-bit totals."""
    return totals.astype(np.int64) - seen.astype(np.int64)


def current(
    totals: NDArray[np.int64 | np.uint64], seen: NDArray[np.int64 | np.uint64], decayed: Int64s
) -> Int64s:
    """The decayed costs between two sweeps, those charged since the last one included."""
    return saturating_add(decayed, pending(totals, seen))


def sweep(
    totals: NDArray[np.int64 | np.uint64],
    seen: NDArray[np.int64 | np.uint64],
    decayed: Int64s,
    factor: float,
) -> Int64s:
    """The new decayed costs, shape (rows,), for 0 < factor < 1; then the caller sets seen = totals.

    `totals` is the sum over the processes' columns, 64-bit integers of either sign. Nothing is
    changed in place, so a sweep that dies half-way can simply be done again.
    """
    costs = current(totals, seen, decayed)
    return (costs.astype(np.float64) * factor).astype(np.int64)


def level_of(decayed: int, total: int, thresholds: Sequence[float]) -> int:
    """The level of one identity with `decayed` of `total` costs; 64-bit integers."""
    share = float(decayed) / float(total) if total > 0 else 0.0
    for level in range(len(thresholds), 0, -1):
        if share >= thresholds[level - 1]:
            return level
    return 0


def levels_of(decayed: Int64s, total: int, thresholds: Sequence[float]) -> NDArray[np.uint8]:
    """The levels of all rows at once, shape (rows,)."""
    shares = decayed.astype(np.float64) / float(total) if total > 0 else np.zeros(decayed.shape)
    levels = np.zeros(decayed.shape, np.uint8)
    for level, threshold in enumerate(thresholds, start=1):
        levels[shares >= threshold] = level
    return levels


def sweeps_due(last_ns: int, now_ns: int, period_ms: int) -> int:
    """How many whole periods have passed: 0 = not yet, n > 1 = one sweep now, n - 1 were missed."""
    return max(0, now_ns - last_ns) // (period_ms * 1_000_000)


def sweeps_until(cost: int, target: int, factor: float) -> int:
    """After how many sweeps an idle identity's decayed cost is at most `target` >= 0."""
    sweeps = 0
    while cost > target:
        cost, sweeps = int(cost * factor), sweeps + 1
    return sweeps
