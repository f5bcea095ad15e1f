"""Who calls how much: the heaviest users one by one, all others together, and users per level.

    decayed   the cost that counts now: as of the last sweep, and what was charged since
    share     of the decayed cost of all ordinary users: what the scheduler compares with its
              thresholds at a sweep; a service user has none
    cost      ever charged
    calls     ever made
    volume    of all ordinary users, and of all service users: decayed and ever charged

Hadoop: `DecayRpcSchedulerMXBean` (CallVolumeSummary, SchedulingDecisionSummary,
UniqueIdentityCount) and the top-user metrics. Read without the names lock: a row may go to another
user meanwhile, so its hash and generation are compared after its name was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...scheduling import decay
from ...scheduling.saturation import saturating_sum
from ...shm.names import OTHERS
from ...shm.shared import Shared

if TYPE_CHECKING:
    from ..port import Port

HISTORY = "HistoryRpcScheduler"


class Users:
    """The callers of one port."""

    def __init__(self, port: Port) -> None:
        self._port, self._shared = port, port.shared

    def snapshot(self) -> dict[str, Any]:
        """The top users by decayed cost, the rest as one, and how many there are."""
        reading = _Reading(self._shared, self._service_rows())
        most = self._port.ipc.decay_scheduler.metrics_top_user_count
        top = [(row, name) for row in reading.heaviest(most) if (name := reading.name(row))]
        rest = reading.used.copy()
        rest[[row for row, _ in top]] = False
        return {
            "unique": int(reading.used.sum()) - int(reading.used[OTHERS]),
            "volume": reading.volumes(),
            "top": [{"user": name, **reading.of(row)} for row, name in top],
            "others": reading.of_all(rest),
        }

    def per_level(self, levels: int) -> list[int]:
        """How many users each level has, as the last sweep decided: shape (levels,)."""
        rows = self._shared.names.identities.rows
        used = rows["hash"] != 0
        used[OTHERS] = False
        level = rows["level"][used]
        level[level >= self._shared.geometry.levels] = 0  # those of the service lane
        at = np.minimum(level, np.uint64(levels - 1)).astype(np.intp)
        counts: list[int] = np.bincount(at, minlength=levels).tolist()
        return counts

    def _service_rows(self) -> list[int]:
        """The rows of the service users that have one."""
        ipc = self._port.ipc
        history = ipc.scheduler.impl == HISTORY
        users = ipc.history_scheduler if history else ipc.decay_scheduler
        rows = (self._shared.names.identities.find(name) for name in users.service_users)
        return [row for row in rows if row >= 0]


class _Reading:
    """All rows, read once. Arrays have one element per row, shape (identities,)."""

    def __init__(self, shared: Shared, service: Sequence[int]) -> None:
        rows, charged = shared.names.identities.rows, shared.columns.cost_totals()
        self._identities, self._rows = shared.names.identities, rows
        called = shared.columns.call_totals()
        self._hash, self._word = rows["hash"].copy(), rows["word"].copy()
        self._level, self._waiting = rows["level"].copy(), rows["waiting"].copy()
        self._level[self._level >= shared.geometry.levels] = 0  # those of the service lane
        self.used: npt.NDArray[np.bool_] = self._hash != 0
        seen, before = rows["seen"].copy(), rows["decayed"].astype(np.int64)
        self._decayed = np.maximum(decay.current(charged, seen, before), 0)
        self._decayed[~self.used] = 0
        self._cost = rows["raw"].astype(np.int64) + decay.pending(charged, seen)
        self._calls = (called - rows["calls_seen"]).astype(np.int64)
        self._ordinary = self.used.copy()
        self._ordinary[list(service)] = False
        self._total = saturating_sum(self._decayed[self._ordinary])

    def heaviest(self, most: int) -> list[int]:
        """At most `most` rows that have a cost, the highest decayed cost first."""
        costs = self._decayed.copy()
        costs[OTHERS] = 0
        order = np.argsort(-costs, kind="stable")[:most]
        heaviest: list[int] = order[costs[order] > 0].tolist()
        return heaviest

    def name(self, row: int) -> str:
        """The name that the row had when it was read; "" if it is another's by now."""
        name = self._identities.name(row)
        same_user = self._rows["hash"][row] == self._hash[row]
        same_generation = int(self._rows["word"][row]) >> 32 == int(self._word[row]) >> 32
        return name if same_user and same_generation else ""

    def of(self, row: int) -> dict[str, Any]:
        decayed, cost = int(self._decayed[row]), int(self._cost[row])
        return {
            "level": int(self._level[row]),
            "share": self._share(decayed) if self._ordinary[row] else None,
            "decayed": decayed,
            "cost": cost,
            "calls": int(self._calls[row]),
            "waiting": int(self._waiting[row]),
        }

    def of_all(self, rows: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """The sums over `rows`; who found no row of his own counts in them, but not as a user."""
        cost = saturating_sum(self._cost[rows])
        return {
            "users": int(rows.sum()) - int(rows[OTHERS]),
            "share": self._share(saturating_sum(self._decayed[rows & self._ordinary])),
            "decayed": saturating_sum(self._decayed[rows]),
            "cost": cost,
            "calls": int(self._calls[rows].sum()),
            "waiting": int(self._waiting[rows].sum()),
        }

    def _share(self, decayed: int) -> float:
        return round(decayed / self._total, 4) if self._total > 0 else 0.0

    def volumes(self) -> dict[str, int]:
        """Hadoop: DecayedCallVolume, CallVolume, and those of service users."""
        service = self.used & ~self._ordinary
        return {
            "decayed": self._total,
            "ever": saturating_sum(self._cost[self._ordinary]),
            "service_decayed": saturating_sum(self._decayed[service]),
            "service_ever": saturating_sum(self._cost[service]),
        }
