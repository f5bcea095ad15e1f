"""`faircall.explain`: a caller asks why it has its level, about itself and about nobody else.

Answered by the reader, without a queue: who is overloaded by itself still learns why. All rows are
read at most twice a second, however many ask, so an answer is constant work.
"""

from __future__ import annotations

from typing import Any

from ...shm.names import OTHERS
from ...shm.shared import Shared
from ..standing import LevelRules, standing
from ..user_rows import UserRows
from .connection import Who

FRESH_NS = 500_000_000


class Explanation:
    """One reader's; `rules` may change meanwhile."""

    def __init__(self, shared: Shared, rules: LevelRules) -> None:
        self._shared, self.rules = shared, rules
        self._rows: UserRows | None = None
        self._read_ns = 0

    def of(self, who: Who, now_ns: int) -> dict[str, Any]:
        """The level of who asks, why it has it, and what of its calls waits."""
        account = who.caller
        rows = self._fresh(now_ns)
        found: dict[str, Any] = {"user": who.user or account.name, "charged": account.name}
        if account.row == OTHERS:
            note = "the table of callers is full: all who found no room share a row"
            return {**found, "note": note}
        level = self._shared.segment.q[account.level_word]  # of a stranger not that of its row
        return {
            **found,
            **standing(self.rules, rows, account.row, account.name),
            "level": level if level < self._shared.geometry.levels else 0,
            "waiting": int(self._shared.names.identities.rows["waiting"][account.row]),
        }

    def _fresh(self, now_ns: int) -> UserRows:
        if self._rows is None or now_ns - self._read_ns >= FRESH_NS:
            find = self._shared.names.identities.find
            service = [row for name in self.rules.service_users if (row := find(name)) >= 0]
            self._rows, self._read_ns = UserRows(self._shared, service), now_ns
        return self._rows
