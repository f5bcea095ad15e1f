"""The costs of all identities: rows that come with the first charge and go when nothing is left.

Follows the call-cost table of `DecayRpcScheduler`. Per row three columns: `charged` (monotone while
all costs are positive; also Hadoop's *raw* cost), `seen` and `decayed`, folded by `decay.sweep`.

    cost of a row  = decayed + charged - seen                         (between sweeps)
    total.decayed  = sum of the costs of ordinary rows                (exempt rows: apart)
    total.raw      = sum of charged over the rows that the last sweep found, and charges since

A row whose decayed cost becomes 0 is dropped by that sweep; its raw cost is still in the total
until the next one, as in Hadoop. Exempt identities (service users) count towards no one's share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from . import decay
from .saturation import Int64s, clamp64, saturating_sum

_FIRST_ROWS = 64


@dataclass
class Volume:
    """Two sums over identities: of their decayed and of their raw costs."""

    decayed: int = 0
    raw: int = 0

    def add(self, cost: int) -> None:
        """Adds a new charge to both."""
        self.decayed = clamp64(self.decayed + cost)
        self.raw = clamp64(self.raw + cost)


class CostLedger:
    """Charged, seen and decayed costs, shape (rows,) each, and the identity of each row."""

    def __init__(self, exempt: frozenset[str] = frozenset()) -> None:
        self.exempt = exempt
        self.ordinary, self.service = Volume(), Volume()
        self._rows: dict[str, int] = {}
        self._free = list(range(_FIRST_ROWS))
        self._charged, self._seen, self._decayed = np.zeros((3, _FIRST_ROWS), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def charge(self, identity: str, cost: int) -> None:
        """Adds `cost`, a signed 64-bit integer, to the identity's costs."""
        row = self._rows.get(identity)
        if row is None:
            row = self._new_row(identity)
        self._charged[row] = clamp64(int(self._charged[row]) + cost)
        (self.service if identity in self.exempt else self.ordinary).add(cost)

    def cost(self, identity: str) -> int:
        """The decayed cost now; 0 for an unknown identity."""
        row = self._rows.get(identity)
        if row is None:
            return 0
        return clamp64(int(self._decayed[row]) + int(self._charged[row]) - int(self._seen[row]))

    def raw_cost(self, identity: str) -> int:
        """All that was charged since the row began; 0 for an unknown identity."""
        row = self._rows.get(identity)
        return 0 if row is None else int(self._charged[row])

    def sweep(self, factor: float) -> None:
        """Decays every cost, sums the totals anew and drops the rows that became 0."""
        self._decayed[:] = decay.sweep(self._charged, self._seen, self._decayed, factor)
        self._seen[:] = self._charged
        exempt = [row for identity, row in self._rows.items() if identity in self.exempt]
        self.service = self._volume(np.array(exempt, np.intp))
        ordinary = np.ones(len(self._decayed), bool)
        ordinary[exempt] = False
        self.ordinary = self._volume(np.flatnonzero(ordinary))
        for identity in [name for name, row in self._rows.items() if self._decayed[row] == 0]:
            self._drop(identity)

    def levels(self, thresholds: list[float]) -> dict[str, int]:
        """The level of every identity by its share of the ordinary total, right after a sweep."""
        levels = decay.levels_of(self._decayed, self.ordinary.decayed, thresholds)
        return {name: int(levels[row]) for name, row in self._rows.items()}

    def _volume(self, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Volume:
        decayed, charged = self._decayed[rows], self._charged[rows]
        return Volume(saturating_sum(decayed), saturating_sum(charged))

    def _new_row(self, identity: str) -> int:
        if not self._free:
            self._grow()
        return self._rows.setdefault(identity, self._free.pop())

    def _grow(self) -> None:
        rows = len(self._charged)
        columns: Int64s = np.zeros((3, 2 * rows), np.int64)
        columns[:, :rows] = self._charged, self._seen, self._decayed
        self._charged, self._seen, self._decayed = columns
        self._free.extend(range(rows, 2 * rows))

    def _drop(self, identity: str) -> None:
        row = self._rows.pop(identity)
        self._charged[row] = self._seen[row] = 0
        self._free.append(row)
