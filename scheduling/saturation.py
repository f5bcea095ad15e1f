"""64-bit sums that stop at the ends of their range instead of wrapping.

Hadoop's costs are Java `long`s and its totals wrap: two users of 5e18 each have a *negative* total,
which counts as no load at all, so both are level 0. Here a sum that leaves the range stays at its
end, and shares stay shares. Products (`cost.py`) wrap as in Java: they only mislead one caller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

MOST = 2**63 - 1
LEAST = -(2**63)


def clamp64(value: int) -> int:
    """`value`, or the nearest end of the signed 64-bit range."""
    return min(max(value, LEAST), MOST)


def wrap64(value: int) -> int:
    """`value` modulo 2^64, as a signed 64-bit integer: what Java's arithmetic leaves of it."""
    return (value - LEAST) % 2**64 + LEAST


def saturating_add(left: Int64s, right: Int64s) -> Int64s:
    """Elementwise sum, shapes as in `left + right`; outside the range, the end it left by."""
    total = left + right
    left_the_range = ((left ^ total) & (right ^ total)) < 0
    return np.where(left_the_range, np.where(left < 0, LEAST, MOST), total)


def saturating_sum(values: Int64s) -> int:
    """The sum of all `values`, clamped. Exact, whatever the intermediate sums are."""
    if float(np.abs(values.astype(np.float64)).sum()) < 2.0**62:
        return int(values.sum())
    return clamp64(sum(values.tolist()))
