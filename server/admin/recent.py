"""Rates of the last ten seconds, from samples of the counters that the admin process keeps.

A sample is taken about once a second; a rate is what a counter has gained since the oldest one. A
handler's busy time includes the call that it runs at the moment, which its counter does not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...shm.columns import Columns, Counter
from ...shm.layout import SLOT, word_of
from ...shm.shared import Shared

EVERY_NS = 1_000_000_000
SAMPLES = 10

ROOM = (
    Counter.REFUSED_QUEUE_FULL,
    Counter.REFUSED_PRINCIPAL,
    Counter.REFUSED_RESPONSE_TIME,
    Counter.REFUSED_MAX_WAIT,
)
_CLAIMED = word_of(SLOT, "claimed_ns")


@dataclass(frozen=True, slots=True)
class Rates:
    """`busy` is the share of the window that each handler spent in user code, 0 to 1;
    `refused_per_s` is of calls for which there was no room, not of those that a limit refused."""

    window_ns: int
    calls_per_s: float
    answered_per_s: float
    refused_per_s: float
    busy: list[float]


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ns: int
    calls: int
    answered: int
    refused: int
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
            (now.refused - then.refused) * 1e9 / window_ns,
            busy.tolist(),
        )

    def _sample(self, now_ns: int) -> _Sample:
        columns = self._shared.columns
        calls, answered = columns.total(Counter.CALLS), columns.total(Counter.ANSWERED)
        refused = refused_for_room(columns)
        return _Sample(now_ns, calls, answered, refused, busy_times(self._shared, now_ns))


def busy_times(shared: Shared, now_ns: int) -> npt.NDArray[np.int64]:
    """How long each handler has been in user code, in ns, with the call that it runs: shape
    (handlers,)."""
    first, last = shared.geometry.readers, shared.geometry.readers + shared.geometry.handlers
    busy_ns = shared.columns.counters[first:last, Counter.BUSY_NS].astype(np.int64)
    for handler in range(last - first):
        slot = shared.running_slot(handler)
        if slot >= 0:
            busy_ns[handler] += max(0, now_ns - int(shared.table.words[slot, _CLAIMED]))
    return busy_ns


def refused_for_room(columns: Columns) -> int:
    """Calls that were refused since the start, but for those that a limit refused."""
    return sum(columns.total(counter) for counter in ROOM)
