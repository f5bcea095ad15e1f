"""Mean response times of the levels, and which levels back off because of them.

At each sweep what the handlers' columns have gained is a window; `scheduling.response_time` makes
the next means of it, in one of two modes. Means are nanoseconds here, thresholds milliseconds. What
was seen and found lies in the segment: a successor of this janitor goes on where it ended, and a
death in the middle makes one window count twice.

A response time lasts from a call's arrival until its function has ended: its waits in the queue and
in the handler's own, and its run. A level that is no more counts as the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...scheduling import response_time
from ...scheduling.saturation import Int64s
from ...shm.layout import LEVEL, MAX_LEVELS
from ...shm.shared import Shared

if TYPE_CHECKING:
    from ..config_schedulers import DecayScheduler

MS = 1_000_000


class LevelTimes:
    """`fold` ends a window. Arrays have one element per configured level, shape (levels,)."""

    def __init__(self, shared: Shared) -> None:
        self._columns = shared.columns.levels
        self._words = shared.segment.records(LEVEL, shared.segment.layout.level_words, MAX_LEVELS)

    def configure(self, settings: DecayScheduler, decides: bool) -> None:
        """Go by these from now on. `decides`: whether the scheduler is one that backs off."""
        thresholds = settings.backoff_responsetime_thresholds_ms
        self._levels = len(thresholds)
        self._factor, self._mode = settings.decay_factor, settings.backoff_responsetime_mode
        self._thresholds_ns = np.array(thresholds, np.float64) * MS
        self._backs_off = decides and settings.backoff_responsetime_enable

    def fold(self) -> None:
        """The next means, and from now on the levels that they let in."""
        levels, words = self._levels, self._words
        count, total_ns = (
            self._gained("count", "seen_count"),
            self._gained("response_ns", "seen_ns"),
        )
        mean, weight = (words[name][:levels].view(np.float64) for name in ("mean_ns", "weight"))
        if self._mode == "hadoop":
            means = response_time.running_sums(mean, total_ns, count, self._factor)
        else:
            means, weight[:] = response_time.true_means(mean, weight, total_ns, count, self._factor)
        mean[:], words["count"][:levels] = means, count.view(np.uint64)
        slow = response_time.backed_off(means, self._thresholds_ns, self._mode)
        words["backs_off"][:levels] = slow & self._backs_off

    def _gained(self, column: str, seen: str) -> Int64s:
        """What all handlers have added to `column` since the last look."""
        total = self._columns[column].sum(axis=0, dtype=np.uint64)
        gained = (total - self._words[seen]).astype(np.int64)
        self._words[seen] = total
        of_levels: Int64s = gained[: self._levels].copy()
        of_levels[-1] += gained[self._levels :].sum()
        return of_levels
