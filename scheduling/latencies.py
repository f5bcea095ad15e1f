"""Log-linear histograms of times: 8 buckets per octave from 1 us to an hour, so that any time is
known to an eighth, and a record costs two additions.

    u      = ns >> 7                               units of 128 ns
    bucket = u                      for u < 16     each 128 ns wide
           = 8 e + (u >> e)         else, with e = bit length of u - 4: u >> e is 8..15
    last     LAST, from 64 minutes on, has no upper end

A value that lies on the edge of two buckets counts in the upper one. After HdrHistogram (Tene), and
the exponential histograms of OpenTelemetry, whose scale 3 has the same 8 buckets per octave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

UNIT_SHIFT = 7  # 128 ns
LINEAR = 16  # buckets of one unit
LAST = 262
BUCKETS = LAST + 1

Counts = npt.NDArray[np.uint64]


def bucket_of(ns: int) -> int:
    """The bucket that counts a time of `ns`, which is 0 or more."""
    units = ns >> UNIT_SHIFT
    if units < LINEAR:
        return units
    octave = units.bit_length() - 4
    return min(LAST, (octave << 3) + (units >> octave))


def lower_ns(bucket: int) -> int:
    """The least time that `bucket` counts; of `bucket + 1`, what it just does not count."""
    if bucket < LINEAR:
        return bucket << UNIT_SHIFT
    return ((bucket & 7) + 8) << (bucket >> 3) - 1 << UNIT_SHIFT


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many times fell into each bucket: `counts`, shape (BUCKETS,); `sum_ns` of all of them."""

    counts: Counts
    sum_ns: int

    @classmethod
    def empty(cls) -> Histogram:
        return cls(np.zeros(BUCKETS, np.uint64), 0)

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(self.counts + other.counts, self.sum_ns + other.sum_ns)

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def mean_ns(self) -> float | None:
        """None where nothing was counted."""
        count = self.count
        return self.sum_ns / count if count else None

    def quantile(self, share: float) -> float | None:
        """The time in ns under which `share` (0..1) of all lie; None where nothing was counted.

        Within a bucket times are taken to be spread evenly; in the last, to be its least.
        """
        count = self.count
        if not count:
            return None
        rank = min(count, max(1, math.ceil(share * count)))
        upto = np.cumsum(self.counts)
        bucket = int(np.searchsorted(upto, np.uint64(rank)))
        if bucket >= LAST:
            return float(lower_ns(LAST))
        inside = int(self.counts[bucket])
        part = (rank - int(upto[bucket]) + inside) / inside
        low, high = lower_ns(bucket), lower_ns(bucket + 1)
        return low + (high - low) * part

    def at_most(self, bounds: Sequence[int]) -> list[int]:
        """How many times lie under each of `bounds`, which are lower ends of buckets, in ns."""
        before = np.concatenate(([0], np.cumsum(self.counts)))
        return [int(before[bucket_of(bound)]) for bound in bounds]
