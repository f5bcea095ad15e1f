"""The log-linear histograms of the load generator: 64 buckets to an octave.

Bucket b holds values from `lowest(b)` to `lowest(b + 1)` - 1: a quantile is off by 1.6 % at most.
perf/load/histogram.h counts in the same buckets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

SUB_BITS = 6
SUB = 1 << SUB_BITS
BUCKETS = SUB * 38


def bucket_of(value: int) -> int:
    """The bucket of a value; what is larger than all goes into the last one."""
    if value < SUB:
        return max(value, 0)
    shift = value.bit_length() - 1 - SUB_BITS
    return min((shift + 1) * SUB + (value >> shift) - SUB, BUCKETS - 1)


def lowest(bucket: int) -> int:
    """The smallest value of a bucket."""
    if bucket < SUB:
        return bucket
    octave, rest = divmod(bucket, SUB)
    return (SUB + rest) << (octave - 1)


class Histogram:
    """Values in ns: how many, their sum, the largest, and how many in each bucket."""

    def __init__(self, count: int = 0, total: int = 0, largest: int = 0) -> None:
        self.count, self.total, self.largest = count, total, largest
        self.buckets: Counter[int] = Counter()

    @classmethod
    def of(cls, values: Iterable[int]) -> Histogram:
        """A histogram of these values."""
        made = cls()
        for value in values:
            made.note(value)
        return made

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Histogram:
        """What `as_json` made, or the generator printed."""
        made = cls(found["count"], found["sum"], found["max"])
        made.buckets.update(dict(map(tuple, found["buckets"])))
        return made

    def as_json(self) -> dict[str, Any]:
        buckets = [[bucket, self.buckets[bucket]] for bucket in sorted(self.buckets)]
        return {"count": self.count, "sum": self.total, "max": self.largest, "buckets": buckets}

    def note(self, value: int) -> None:
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)
        self.buckets[bucket_of(value)] += 1

    def __add__(self, other: Histogram) -> Histogram:
        both = Histogram(
            self.count + other.count,
            self.total + other.total,
            max(self.largest, other.largest),
        )
        both.buckets = self.buckets + other.buckets
        return both

    def quantile(self, quantile: float) -> float:
        """The middle of the bucket in which that part of the values ends; nan if there are none."""
        if not self.count:
            return math.nan
        wanted, seen = max(1, math.ceil(quantile * self.count)), 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                middle = (lowest(bucket) + lowest(bucket + 1) - 1) / 2
                return min(middle, self.largest)
        return self.largest

    def mean(self) -> float:
        """nan if there are no values."""
        return self.total / self.count if self.count else math.nan


def hgrm(histogram: Histogram, unit_ns: float = 1e6) -> str:
    """The percentile distribution as HdrHistogram prints it (a .hgrm file), values in ms."""
    lines = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
    seen = 0
    for bucket in sorted(histogram.buckets):
        seen += histogram.buckets[bucket]
        part = seen / histogram.count
        value = min(lowest(bucket + 1) - 1, histogram.largest) / unit_ns
        left = f"{1 / (1 - part):14.2f}" if part < 1 else ""
        lines.append(f"{value:12.3f} {part:2.12f} {seen:10d} {left}".rstrip())
    mean, largest = histogram.mean() / unit_ns, histogram.largest / unit_ns
    lines.append(f"#[Mean    = {mean:12.3f}, StdDeviation   = {_deviation(histogram):12.3f}]")
    lines.append(f"#[Max     = {largest:12.3f}, Total count    = {histogram.count:12d}]")
    lines.append(f"#[Buckets = {BUCKETS // SUB:12d}, SubBuckets     = {SUB:12d}]")
    return "\n".join(lines) + "\n"


def _deviation(histogram: Histogram, unit_ns: float = 1e6) -> float:
    if not histogram.count:
        return math.nan
    mean = histogram.mean()
    square = sum(
        count * ((lowest(bucket) + lowest(bucket + 1) - 1) / 2 - mean) ** 2
        for bucket, count in histogram.buckets.items()
    )
    return math.sqrt(square / histogram.count) / unit_ns
