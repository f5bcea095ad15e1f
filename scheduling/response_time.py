"""Mean response times per level, and which levels back off because of them (HADOOP-12916).

In a window (one sweep period) each level has `total` and `count` of the response times of completed
calls. At a sweep the window becomes a mean, in one of two modes:

    hadoop   mean' = factor * mean + total / count            (0 where neither exceeds 0.0001)
             level l backs off if mean > threshold at any level <= l
    guide    weight' = factor * weight + count
             mean'   = (factor * weight * mean + total) / weight'       (idle: factor * mean)
             level l backs off if mean > threshold at any level < l

`hadoop` is what the running system does: its mean is not normalised (steady 10 ms become 20 at a
factor of 0.5), and a slow level refuses its own calls. `guide` is what the Fair Call Queue guide
says: with a threshold of 10 s at level 1 and a mean of 12 s, levels 2 and lower back off, 0 and 1
proceed. In it an idle level's mean fades, so that what it holds back is let in again.

Differs: thresholds are milliseconds whatever `rpc.metrics.timeunit` says; Hadoop compares them with
means in that unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .saturation import Int64s, clamp64

Float64s = NDArray[np.float64]
Mode = Literal["hadoop", "guide"]

DEFAULT_THRESHOLD_MS = 10_000  # of level 0; level n has n + 1 times as much
_PRECISION = 0.0001


def default_thresholds_ms(levels: int) -> list[int]:
    """10 s for level 0, 20 s for level 1, and so on, shape (levels,)."""
    return [DEFAULT_THRESHOLD_MS * (level + 1) for level in range(levels)]


def window_means(total: Int64s, count: Int64s) -> Float64s:
    """The plain mean of each level's window, shape (levels,); 0 where nothing completed."""
    return total.astype(np.float64) / np.maximum(count, 1)


def running_sums(mean: Float64s, total: Int64s, count: Int64s, factor: float) -> Float64s:
    """The next means of mode "hadoop", shape (levels,)."""
    window = window_means(total, count)
    matters = (mean > _PRECISION) | (window > _PRECISION)
    return np.where(matters, factor * mean + window, 0.0)


def true_means(
    mean: Float64s, weight: Float64s, total: Int64s, count: Int64s, factor: float
) -> tuple[Float64s, Float64s]:
    """The next means and weights of mode "guide", shape (levels,) each."""
    faded = factor * weight
    next_weight = faded + count
    busy = (faded * mean + total) / np.where(count > 0, next_weight, 1.0)
    return np.where(count > 0, busy, factor * mean), next_weight


def backed_off(mean: Float64s, thresholds: Float64s, mode: Mode) -> NDArray[np.bool_]:
    """Which levels back off, shape (levels,); `mean` and `thresholds` in one unit."""
    exceeded = np.logical_or.accumulate(mean > thresholds)
    if mode == "hadoop":
        return exceeded
    return np.concatenate(([False], exceeded[:-1]))


class ResponseTimes:
    """The windows and means of one scheduler, per level; times in any one unit."""

    def __init__(self, levels: int, mode: Mode = "guide") -> None:
        self.mode: Mode = mode
        self.mean: Float64s = np.zeros(levels)
        self.last_count: Int64s = np.zeros(levels, np.int64)
        self._weight: Float64s = np.zeros(levels)
        self._total, self._count = np.zeros((2, levels), np.int64)

    def record(self, level: int, response_time: int) -> None:
        """A call of `level` completed; a level that no longer exists counts as the last one."""
        nearest = min(max(level, 0), len(self._count) - 1)
        self._count[nearest] += 1
        self._total[nearest] = clamp64(int(self._total[nearest]) + response_time)

    def fold(self, factor: float) -> None:
        """Ends the window; a `factor` of 0 forgets the means before it."""
        if self.mode == "hadoop":
            self.mean = running_sums(self.mean, self._total, self._count, factor)
        else:
            self.mean, self._weight = true_means(
                self.mean, self._weight, self._total, self._count, factor
            )
        self.last_count = self._count.copy()
        self._total[:] = self._count[:] = 0

    def backs_off(self, level: int, thresholds: Sequence[float]) -> bool:
        """Whether a call of `level` is refused; `thresholds` has shape (levels,)."""
        nearest = min(max(level, 0), len(self._count) - 1)
        return bool(backed_off(self.mean, np.asarray(thresholds, np.float64), self.mode)[nearest])
