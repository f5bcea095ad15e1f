"""Staged calls are offered to the queue here, those of a whole pass under one lock.

What the queue refuses is answered "limit exceeded" with the time after which to come back. With
back-off off, the connection is paused instead until there is room; a connection that carries the
calls of many users (a proxy's) always gets answers, for one user's full queue must not stop all.
"""

from __future__ import annotations

from ..shm.columns import Counter
from ..shm.shared import Shared
from ..shm.table import ACCEPTED, LEVEL_FULL, PRINCIPAL_FULL
from . import refusals
from .callbook import CallBook
from .drain_rate import DrainRate
from .exchange import PendingCall
from .replies import Replies

_COUNTERS = {
    LEVEL_FULL: Counter.REFUSED_QUEUE_FULL,
    PRINCIPAL_FULL: Counter.REFUSED_PRINCIPAL,
}


class Enqueuer:
    """`staged` holds (slot, level) in order of arrival; `blocked` those that wait for room."""

    def __init__(
        self, shared: Shared, index: int, book: CallBook, replies: Replies, backoff: bool
    ) -> None:
        self.staged: list[tuple[int, int]] = []
        self.blocked: list[tuple[int, int]] = []
        self.drain = DrainRate(shared)
        self._shared, self._index, self._book, self._replies = shared, index, book, replies
        self._backoff = backoff
        self._verdicts: list[int] = []

    def flush(self, now_ns: int) -> None:
        """Offer everything, and wake the handlers that it needs."""
        if self.blocked:
            self.staged[:0] = self.blocked
            self.blocked = []
        if not self.staged:
            return
        staged, self.staged = self.staged, []
        verdicts = self._verdicts
        if len(verdicts) < len(staged):
            verdicts.extend([0] * (len(staged) - len(verdicts)))
        wake = self._shared.table.enqueue(staged, verdicts)
        if wake:
            self._shared.doorbells.ring_handlers(wake)
        for (slot, level), verdict in zip(staged, verdicts, strict=False):
            if verdict != ACCEPTED:
                self._refused(slot, level, verdict, now_ns)
            elif (pending := self._book.calls[slot]).blocked:
                self._resume(pending)

    def withdraw(self, slot: int) -> bool:
        """Take back a call that was staged or blocked and not yet accepted; True if it was."""
        for calls in (self.staged, self.blocked):
            for index, (staged, _) in enumerate(calls):
                if staged == slot:
                    del calls[index]
                    self._resume(self._book.unstage(slot))
                    return True
        return False

    def _refused(self, slot: int, level: int, verdict: int, now_ns: int) -> None:
        pending = self._book.calls[slot]
        connection = pending.connection
        if not self._backoff and not (connection and connection.claimed):
            self._block(pending)
            self.blocked.append((slot, level))
            return
        message = self._book.message(slot)
        self._book.unstage(slot)
        if connection:
            connection.calls.discard(slot)
        self._shared.columns.add(self._index, _COUNTERS[verdict])
        error = refusals.busy(verdict, level, self.drain.retry_after_ms(now_ns))
        self._replies.refuse(pending, error, message, busy=True)

    def _block(self, pending: PendingCall) -> None:
        if not pending.blocked:
            pending.blocked = True
            if pending.connection:
                pending.connection.paused += 1

    def _resume(self, pending: PendingCall) -> None:
        if pending.blocked:
            pending.blocked = False
            if pending.connection:
                pending.connection.paused -= 1
                pending.connection.touch()
