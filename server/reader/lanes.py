"""Which calls go to a lane beside the levels, instead of to the level of their caller.

reserved    methods and users of `scheduler.reserved.*`
service     service users: the janitor publishes the lane as their level
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...shm.draws import RESERVED


@dataclass(frozen=True, slots=True)
class ReservedCalls:
    """What the settings name."""

    methods: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()


class Lanes:
    """`levels`: as many as the segment has room for; behind them come the lanes."""

    def __init__(self, levels: int, reserved: ReservedCalls) -> None:
        self._levels, self._rows = levels, set[int]()
        self.reserve(reserved, {})

    def reserve(self, reserved: ReservedCalls, rows: Mapping[str, int]) -> None:
        """From now on these. `rows` are those of the methods that were called so far."""
        self.reserved, self.are_used = reserved, bool(reserved.methods or reserved.users)
        self._rows = {row for name, row in rows.items() if name in reserved.methods}

    def know(self, method: str, row: int) -> None:
        """`method` is called for the first time."""
        if method in self.reserved.methods:
            self._rows.add(row)

    def place(self, user: str, row: int, level: int) -> int:
        """Where a call of the method `row` waits, whose caller `user` has `level`."""
        if row in self._rows or user in self.reserved.users:
            return self._levels + RESERVED
        return level
