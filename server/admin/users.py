"""Who calls how much: the heaviest users one by one, all others together, and users per level.

    decayed   the cost that counts now: as of the last sweep, and what was charged since
    share     of the decayed cost of all ordinary users: what the scheduler compares with its
              thresholds at a sweep; a service user has none
    cost      ever charged
    calls     ever made
    volume    of all ordinary users, and of all service users: decayed and ever charged

Hadoop: `DecayRpcSchedulerMXBean` (CallVolumeSummary, SchedulingDecisionSummary,
UniqueIdentityCount) and the top-user metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...shm.names import OTHERS
from ..user_rows import UserRows, service_rows

if TYPE_CHECKING:
    from ..port import Port


class Users:
    """The callers of one port."""

    def __init__(self, port: Port) -> None:
        self._port, self._shared = port, port.shared

    def snapshot(self) -> dict[str, Any]:
        """The top users by decayed cost, the rest as one, and how many there are."""
        reading = UserRows(self._shared, service_rows(self._port))
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
