"""Calls that wait when other rates are put in force fall under these, from the next pass on."""

from __future__ import annotations

from ...shm.shared import Shared
from .callbook import CallBook


class RateChanges:
    """Those that one reader has seen; `look` is a part of every pass."""

    def __init__(self, shared: Shared, book: CallBook) -> None:
        self._q, self._book = shared.segment.q, book
        self._word = shared.rates.version_word
        self._known = self._q[self._word]

    def look(self, now_ns: int) -> None:
        """Name the limiters of waiting calls again, if the rates are others than last time."""
        if self._q[self._word] == self._known:
            return
        self._known, book = self._q[self._word], self._book
        waiting = [
            (slot, row, pending.caller)
            for slot, pending in book.calls.items()
            if (row := book.waiting_row(slot)) >= 0
        ]
        book.throttle.name_again(waiting, now_ns)
