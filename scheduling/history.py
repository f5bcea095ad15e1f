"""Levels by count in a window of the last calls (HADOOP-9640, HADOOP-10281: `HistoryRpcScheduler`).

The last `length` calls are remembered, one identity each, in a ring. A level follows from how many
of them are the caller's:

    level = the highest i with count >= thresholds[i - 1], else 0

No decay: a call counts fully until `length` later calls have pushed it out. Thresholds are counts,
so before the window has filled even a lone user stands high. By default the window holds 1,000
calls; four levels begin at 5, 40 and 75 % of it, other numbers of levels at halves of each other.

Differs: service users are level 0 and their calls do not fill the window (as in the decay
scheduler, they count towards no one's share); a missing identity is an identity.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .conf import Conf
from .cost import PhaseTimes
from .errors import BadValue
from .identity import Caller, UserIdentityProvider, identify
from .parsing import names

DEFAULT_LENGTH = 1000
_FOUR_LEVELS = (0.05, 0.40, 0.75)
_PREFIX = "history-scheduler."


def default_thresholds(levels: int, length: int) -> list[int]:
    """Counts at which levels 1 to levels-1 begin, shape (levels-1,)."""
    if levels == len(_FOUR_LEVELS) + 1:
        return [max(1, round(share * length)) for share in _FOUR_LEVELS]
    return [max(1, length >> (levels - 1 - level)) for level in range(levels - 1)]


class HistoryRpcScheduler:
    """The scheduler of one queue; nothing in it depends on time."""

    def __init__(
        self,
        levels: int,
        length: int = DEFAULT_LENGTH,
        thresholds: Sequence[int] = (),
        service_users: frozenset[str] = frozenset(),
    ) -> None:
        if levels < 1 or length < 1:
            raise BadValue(f"at least one level and one call are needed, not {levels}, {length}")
        self.thresholds = list(thresholds) or default_thresholds(levels, length)
        if len(self.thresholds) != levels - 1:
            raise BadValue(f"{levels - 1} thresholds expected, not {len(self.thresholds)}")
        self.service_users = service_users
        self._identities = UserIdentityProvider()
        self._ring = np.full(length, -1, np.int32)  # the row of each remembered call
        self._next = 0
        self._rows: dict[str, int] = {}
        self._identity_of_row: list[str] = []
        self._counts: list[int] = []
        self._free: list[int] = []

    @classmethod
    def from_conf(cls, levels: int, conf: Conf) -> HistoryRpcScheduler:
        """`history-scheduler.{history-length, thresholds, service-users}`; BadValue."""
        return cls(
            levels,
            conf.integer(_PREFIX + "history-length", DEFAULT_LENGTH),
            conf.integers(_PREFIX + "thresholds"),
            frozenset(names(conf.own(_PREFIX + "service-users") or "")),
        )

    def level_of(self, caller: Caller) -> int:
        """The level for a new call of `caller`."""
        count = self.count(identify(self._identities, caller))
        reached = [level for level, least in enumerate(self.thresholds, 1) if count >= least]
        return max(reached, default=0)

    def count(self, identity: str) -> int:
        """How many of the remembered calls are the identity's."""
        row = self._rows.get(identity)
        return 0 if row is None else self._counts[row]

    def arrive(self, caller: Caller, expected_cost: int = 0) -> int:
        """Remembers a call and forgets the oldest one."""
        identity = identify(self._identities, caller)
        if identity in self.service_users:
            return 0
        forgotten = int(self._ring[self._next])
        row = self._row(identity)
        self._counts[row] += 1
        self._ring[self._next] = row
        self._next = (self._next + 1) % len(self._ring)
        if forgotten >= 0:
            self._forget(forgotten)
        return 1

    def complete(self, caller: Caller, level: int, times: PhaseTimes, charged: int = 0) -> None:
        """Nothing: a call counts when it arrives."""

    def backs_off(self, level: int) -> bool:
        """Never: response times are not kept."""
        return False

    def sweep(self) -> None:
        """Nothing: the window moves with the calls."""

    def _row(self, identity: str) -> int:
        row = self._rows.get(identity)
        if row is None:
            row = self._free.pop() if self._free else self._new_row()
            self._rows[identity] = row
            self._identity_of_row[row] = identity
        return row

    def _new_row(self) -> int:
        self._counts.append(0)
        self._identity_of_row.append("")
        return len(self._counts) - 1

    def _forget(self, row: int) -> None:
        self._counts[row] -= 1
        if self._counts[row] == 0:
            del self._rows[self._identity_of_row[row]]
            self._free.append(row)
