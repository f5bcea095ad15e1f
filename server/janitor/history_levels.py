"""Levels by number among the last calls (Hadoop: HADOOP-9640, `scheduling.history`), over columns.

    level = the highest i with calls >= thresholds[i - 1], else 0

The window is filled from what the readers' call columns have gained since the last look, so calls
of one look have no order among them. It begins empty, at the start and after a janitor's death.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class HistoryLevels:
    """`counts` are the calls of each identity row in the window, shape (identities,)."""

    def __init__(self, identities: int, length: int, thresholds: Sequence[int]) -> None:
        self.counts = np.zeros(identities, np.int64)
        self.configure(length, thresholds)
        self._window: deque[tuple[int, int]] = deque()  # (row, calls), oldest first
        self._held = 0
        self._seen: npt.NDArray[np.uint64] | None = None

    def configure(self, length: int, thresholds: Sequence[int]) -> None:
        """Another window, whose calls stay, and other levels."""
        self._length, self._thresholds = length, thresholds

    def begin(self) -> None:
        """An empty window: calls count from the next look on."""
        self.counts[:] = 0
        self._window.clear()
        self._held, self._seen = 0, None

    def follow(
        self, called: npt.NDArray[np.uint64], service: Sequence[int]
    ) -> npt.NDArray[np.uint64] | None:
        """The levels after the calls that are new in `called`, totals per row; None if none is.

        Calls of `service` rows do not fill the window, and their level is 0.
        """
        gained = called - (called if self._seen is None else self._seen)
        self._seen = called
        gained[list(service)] = 0
        rows = np.flatnonzero(gained)
        if not len(rows):
            return None
        for row in rows.tolist():
            self._remember(row, int(gained[row]))
        return self.levels()

    def _remember(self, row: int, calls: int) -> None:
        self._window.append((row, calls))
        self.counts[row] += calls
        self._held += calls

    def _forget(self) -> None:
        """The oldest calls, until the window has its length."""
        while self._held > self._length:
            row, calls = self._window.popleft()
            gone = min(calls, self._held - self._length)
            if gone < calls:
                self._window.appendleft((row, calls - gone))
            self.counts[row] -= gone
            self._held -= gone

    def levels(self) -> npt.NDArray[np.uint64]:
        """Those that follow from the window as it is."""
        self._forget()
        levels = np.zeros(len(self.counts), np.uint64)
        for level, least in enumerate(self._thresholds, start=1):
            levels[self.counts >= least] = level
        return levels
