"""The callers of one port, read at one moment from the words of the identity table.

Read without the names lock: a row may go to another user meanwhile, so its hash and generation are
compared after its name was read. Whose row was evicted is counted in the row of the others, with
all that was ever charged there; so no sum over all rows goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..scheduling import decay
from ..scheduling.saturation import Int64s, saturating_sum
from ..shm.names import OTHERS
from ..shm.shared import Shared
from .port import service_users

if TYPE_CHECKING:
    from .port import Port


def service_rows(port: Port) -> list[int]:
    """The rows of the service users that have one."""
    find = port.shared.names.identities.find
    return [row for name in service_users(port.ipc) if (row := find(name)) >= 0]


class UserRows:
    """All rows, read once. Arrays have one element per row, shape (identities,)."""

    def __init__(self, shared: Shared, service: Sequence[int]) -> None:
        rows, charged = shared.names.identities.rows, shared.columns.cost_totals()
        self._identities, self._rows = shared.names.identities, rows
        called = shared.columns.call_totals()
        refused = shared.columns.refused_totals()
        self.hash, self.word = rows["hash"].copy(), rows["word"].copy()
        self.level, self._waiting = rows["level"].copy(), rows["waiting"].copy()
        self.level[self.level >= shared.geometry.levels] = 0  # those of the service lane
        self.used: npt.NDArray[np.bool_] = self.hash != 0
        seen, self.swept = rows["seen"].copy(), rows["decayed"].astype(np.int64)
        self.decayed: Int64s = np.maximum(decay.current(charged, seen, self.swept), 0)
        self.decayed[~self.used] = 0
        self.cost: Int64s = rows["raw"].astype(np.int64) + decay.pending(charged, seen)
        self.calls: Int64s = (called - rows["calls_seen"]).astype(np.int64)
        self.refused: Int64s = (refused - rows["refused_seen"]).astype(np.int64)
        ever = (charged.astype(np.int64), called.astype(np.int64), refused.astype(np.int64))
        for counted, total in zip((self.cost, self.calls, self.refused), ever, strict=True):
            counted[~self.used] = 0
            counted[OTHERS] += total.sum() - counted.sum()  # of those who were evicted
        self.ordinary = self.used.copy()
        self.ordinary[list(service)] = False
        self.total = saturating_sum(self.decayed[self.ordinary])

    def heaviest(self, most: int) -> list[int]:
        """At most `most` rows that have a cost, the highest decayed cost first."""
        costs = self.decayed.copy()
        costs[OTHERS] = 0
        order = np.argsort(-costs, kind="stable")[:most]
        heaviest: list[int] = order[costs[order] > 0].tolist()
        return heaviest

    def name(self, row: int) -> str:
        """The name that the row had when it was read; "" if it is another's by now."""
        name = self._identities.name(row)
        same_user = self._rows["hash"][row] == self.hash[row]
        same_generation = int(self._rows["word"][row]) >> 32 == int(self.word[row]) >> 32
        return name if same_user and same_generation else ""

    def of(self, row: int) -> dict[str, Any]:
        decayed, cost = int(self.decayed[row]), int(self.cost[row])
        return {
            "level": int(self.level[row]),
            "share": self.share(decayed) if self.ordinary[row] else None,
            "decayed": decayed,
            "cost": cost,
            "calls": int(self.calls[row]),
            "waiting": int(self._waiting[row]),
        }

    def of_all(self, rows: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """The sums over `rows`; who found no row of his own counts in them, but not as a user."""
        cost = saturating_sum(self.cost[rows])
        return {
            "users": int(rows.sum()) - int(rows[OTHERS]),
            "share": self.share(saturating_sum(self.decayed[rows & self.ordinary])),
            "decayed": saturating_sum(self.decayed[rows]),
            "cost": cost,
            "calls": int(self.calls[rows].sum()),
            "waiting": int(self._waiting[rows].sum()),
        }

    def share(self, decayed: int) -> float:
        return round(decayed / self.total, 4) if self.total > 0 else 0.0

    def volumes(self) -> dict[str, int]:
        """Hadoop: DecayedCallVolume, CallVolume, and those of service users."""
        service = self.used & ~self.ordinary
        return {
            "decayed": self.total,
            "ever": saturating_sum(self.cost[self.ordinary]),
            "service_decayed": saturating_sum(self.decayed[service]),
            "service_ever": saturating_sum(self.cost[service]),
        }
