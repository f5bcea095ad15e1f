"""Rates of the last ten seconds, from samples of the counters that the admin process keeps.

A sample is taken about once a second; a rate is what a counter has gained since the oldest one. A
handler's busy time includes the call that it runs at the moment, which its counter does not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...shm.columns import Counter
from ...shm.layout import SLOT, word_of
from ...shm.shared import Shared

EVERY_NS = 1_000_000_000
SAMPLES = 10

_CLAIMED = word_of(SLOT, "claimed_ns")


@dataclass(frozen=True, slots=True)
class Rates:
    """`busy` is the share of the window that each handler spent in user code, 0 to 1."""

    window_ns: int
    calls_per_s: float
    answered_per_s: float
    busy: list[float]


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ns: int
    calls: int
    answered: int
    busy_ns: npt.NDArray[np.int64]


class Recent:
    """`tick` keeps the samples, `rates` compares the counters of now with them."""

    def __init__(self, shared: Shared, now_ns: int) -> None:
        self._shared = shared
        self._samples = deque([self._sample(now_ns)], maxlen=SAMPLES)

    def tick(self, now_ns: int) -> None:
        if now_ns - self._samples[-1].at_ns >= EVERY_NS:
            self._samples.append(self._sample(now_ns))

    def rates(self, now_ns: int) -> Rates:
        """Since the oldest sample."""
        then, now = self._samples[0], self._sample(now_ns)
        window_ns = max(1, now.at_ns - then.at_ns)
        busy = np.clip((now.busy_ns - then.busy_ns) / window_ns, 0.0, 1.0)
        return Rates(
            window_ns,
            (now.calls - then.calls) * 1e9 / window_ns,
            (now.answered - then.answered) * 1e9 / window_ns,
            busy.tolist(),
        )

    def _sample(self, now_ns: int) -> _Sample:
        columns, first = self._shared.columns, self._shared.geometry.readers
        last = first + self._shared.geometry.handlers
        busy_ns = columns.counters[first:last, Counter.BUSY_NS].astype(np.int64)
        for handler in range(last - first):
            busy_ns[handler] += self._running_ns(handler, now_ns)
        calls, answered = columns.total(Counter.CALLS), columns.total(Counter.ANSWERED)
        return _Sample(now_ns, calls, answered, busy_ns)

    def _running_ns(self, handler: int, now_ns: int) -> int:
        """How long the call that `handler` runs has been claimed; 0 if it runs none."""
        slot = (self._shared.row("handler", handler)["current"] & 0xFFFF_FFFF) - 1
        if not 0 <= slot < self._shared.geometry.calls:
            return 0
        return max(0, now_ns - int(self._shared.table.words[slot, _CLAIMED]))
