"""What each identity's row has gained in the last ten seconds, from samples that are kept.

A row that went to another user meanwhile counts from its beginning: what the row has is what its
user did.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...shm.names import OTHERS
from ..user_rows import UserRows

EVERY_NS = 1_000_000_000
SAMPLES = 10

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowRates:
    """Per second, shape (identities,) each; over `window_ns`."""

    window_ns: int
    cost: Floats
    calls: Floats
    refused: Floats


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ns: int
    hash: npt.NDArray[np.uint64]
    word: npt.NDArray[np.uint64]
    counted: npt.NDArray[np.int64]  # (3, identities): cost, calls, refused


class UserRates:
    """`tick` keeps the samples, `rates` compares a reading with the oldest."""

    def __init__(self, rows: UserRows, now_ns: int) -> None:
        self._samples = deque([_sample(rows, now_ns)], maxlen=SAMPLES)

    def is_due(self, now_ns: int) -> bool:
        return now_ns - self._samples[-1].at_ns >= EVERY_NS

    def tick(self, rows: UserRows, now_ns: int) -> None:
        self._samples.append(_sample(rows, now_ns))

    def tick_unchanged(self, now_ns: int) -> None:
        """As `tick`, where nothing has been counted since the last one."""
        self._samples.append(replace(self._samples[-1], at_ns=now_ns))

    def rates(self, rows: UserRows, now_ns: int) -> RowRates:
        """Since the oldest sample."""
        then, now = self._samples[0], _sample(rows, now_ns)
        window_ns = max(1, now_ns - then.at_ns)
        same = (then.hash == now.hash) & (then.word == now.word)
        gained = now.counted - np.where(same, then.counted, 0)
        gained[:, OTHERS] = 0  # they take over what the evicted did, which is no gain
        all_gained = now.counted.sum(axis=1) - then.counted.sum(axis=1)
        gained[:, OTHERS] = np.maximum(all_gained - gained.sum(axis=1), 0)
        cost, calls, refused = gained * 1e9 / window_ns
        return RowRates(window_ns, cost, calls, refused)


def _sample(rows: UserRows, now_ns: int) -> _Sample:
    return _Sample(now_ns, rows.hash, rows.word, np.stack((rows.cost, rows.calls, rows.refused)))
