"""How long calls of each level waited and took of late: what the histograms gained since a look
some seconds ago.

Who looks pays for it: a sample is taken at a look, none in between. At the first look, and after a
pause of more than the window, nothing is known yet.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from ...scheduling.latencies import Histogram
from ...shm.shared import Shared

WINDOW_NS = 10_000_000_000
EVERY_NS = 1_000_000_000
QUANTILES = {"p50": 0.5, "p99": 0.99}

Levels = list[Histogram]


class _Sample(NamedTuple):
    at_ns: int
    waits: Levels
    latencies: Levels


class RecentTimes:
    """Of one port."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._samples: deque[_Sample] = deque()

    def levels(self, now_ns: int) -> list[dict[str, float | None]]:
        """Per level of the geometry: `wait_p50_ms` and so on, None where no call was counted."""
        now, samples = self._sample(now_ns), self._samples
        while samples and now_ns - samples[0].at_ns > WINDOW_NS:
            samples.popleft()
        then = samples[0] if samples else now
        if not samples or now_ns - samples[-1].at_ns >= EVERY_NS:
            samples.append(now)
        return [
            {
                **_quantiles("wait", gained(now.waits[level], then.waits[level])),
                **_quantiles("latency", gained(now.latencies[level], then.latencies[level])),
            }
            for level in range(len(now.waits))
        ]

    def _sample(self, now_ns: int) -> _Sample:
        histograms = self._shared.histograms
        return _Sample(now_ns, list(histograms.wait().levels), list(histograms.latency().levels))


def gained(now: Histogram, then: Histogram) -> Histogram:
    """What was counted between two readings of one histogram."""
    counts = np.where(now.counts > then.counts, now.counts - then.counts, np.uint64(0))
    return Histogram(counts, max(0, now.sum_ns - then.sum_ns))


def _quantiles(measure: str, times: Histogram) -> dict[str, float | None]:
    found = {name: times.quantile(share) for name, share in QUANTILES.items()}
    return {
        f"{measure}_{name}_ms": None if ns is None else round(ns / 1e6, 3)
        for name, ns in found.items()
    }
