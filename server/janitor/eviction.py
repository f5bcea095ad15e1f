"""Identity rows that nobody uses any more are given to others.

    candidate     named by no slot, no call waits, not used for two periods, nothing left to decay
    quarantined   a candidate: marked at one sweep, evicted at a later one if it is one still

A reader notes at each batch that a row is used, and looks whether it still is the caller's: the
quarantine is longer than any batch takes. Where the table is nearly full, identities that still owe
something go, too, the least first; the row of the others takes what they owed, so that nobody gets
rid of a debt.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...shm import states
from ...shm.layout import SLOT, word_of
from ...shm.names import OTHERS
from ...shm.shared import Shared

LEAST_IDLE_NS = 2_000_000_000
BATCH = 1024  # rows evicted at once, under the names lock
_NAMES = [word_of(SLOT, "identity"), word_of(SLOT, "principal")]

Rows = npt.NDArray[np.bool_]


class Eviction:
    """Arrays have one element per identity row, shape (identities,)."""

    def __init__(self, shared: Shared, period_ns: int) -> None:
        self._names, self._words = shared.names, shared.table.words
        self._rows = shared.names.identities.rows
        self.configure(period_ns)
        self._ticked_ns = 0

    def configure(self, period_ns: int) -> None:
        """The decay period, from which follows how long a row must not be used."""
        self._idle_ns = max(2 * period_ns, LEAST_IDLE_NS)

    def tick(self, now_ns: int, keep: Rows) -> list[int]:
        """Evict what was quarantined and is still idle, quarantine what is idle; the rows evicted.

        Rows of `keep` stay. At most once in half the time after which a row is idle.
        """
        if now_ns - self._ticked_ns < self._idle_ns // 2:
            return []
        self._ticked_ns = now_ns
        idle = self._idle(now_ns) & ~keep
        quarantined = self._rows["quarantined"] == 1
        evicted = self._chosen(idle & quarantined)
        self._rows["quarantined"] = idle
        if evicted:
            self._settle(evicted)
            evicted = self._names.evict(evicted, unused_since_ns=now_ns - self._idle_ns)
        return evicted

    def _idle(self, now_ns: int) -> Rows:
        named = self._named()  # before `used_ns`: a reader notes the use before it names the row
        rows = self._rows
        idle: Rows = (rows["hash"] != 0) & (rows["waiting"] == 0) & ~named
        idle &= rows["used_ns"] + np.uint64(self._idle_ns) < np.uint64(now_ns)
        idle[OTHERS] = False
        return idle

    def _named(self) -> Rows:
        """Which rows a slot names that is in use."""
        used = self._words[:, 0] & np.uint64(states.STATE_MASK) != np.uint64(states.FREE)
        numbers = self._words[used][:, _NAMES] & np.uint64(0xFFFF_FFFF)
        named = np.zeros(len(self._rows), bool)
        named[numbers[numbers < len(self._rows)].astype(np.intp)] = True
        return named

    def _chosen(self, candidates: Rows) -> list[int]:
        """Those that owe nothing; with a nearly full table also others, the least debt first."""
        debts = self._rows["decayed"].astype(np.int64)
        order = np.flatnonzero(candidates)
        order = order[np.argsort(debts[order], kind="stable")]
        used, count = int((self._rows["hash"] != 0).sum()), len(self._rows)
        wanted = used - count * 3 // 4 if used > count * 7 // 8 else 0
        free = int((debts[order] <= 0).sum())
        chosen: list[int] = order[: min(BATCH, max(free, wanted))].tolist()
        return chosen

    def _settle(self, rows: list[int]) -> None:
        """The others take the debts; twice, if this dies in between: nothing is given away."""
        debts = self._rows["decayed"]
        debts[OTHERS] += debts[rows].sum()
        debts[rows] = 0
        self._rows["level"][rows] = 0
        self._rows["watch"][rows] = 0  # whoever gets the row is another
