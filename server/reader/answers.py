"""The way back: answered calls are collected, their answers delivered, their slots released."""

from __future__ import annotations

from collections.abc import Callable

from ...shm import states
from ...shm.columns import Counter
from ...shm.shared import Shared
from ...workers.errors import deadline_exceeded
from .arrivals import Arrivals
from .callbook import CallBook
from .connection import Connection
from .exchange import PendingCall
from .replies import Replies
from .waiting import Patience

COLLECT_AT_MOST = 256  # answers per pass


class Answers:
    """Those to the calls of reader `number`, whose counters are `counts`."""

    def __init__(
        self,
        shared: Shared,
        number: int,
        counts: memoryview,
        book: CallBook,
        replies: Replies,
        arrivals: Arrivals,
        patience: Patience,
        clock: Callable[[], int],
    ) -> None:
        self._table, self._number, self._counts = shared.table, number, counts
        self._book, self._replies, self._arrivals = book, replies, arrivals
        self._note, self._clock = patience.note, clock
        self._answer = self._charged_answer if arrivals.charges_responses else self._deliver
        self._collected = [0] * COLLECT_AT_MOST

    def collect(self) -> int:
        """Take answered calls, answer their exchanges, release their slots; how many."""
        book, slots = self._book, self._collected
        count = self._table.collect(self._number, slots)
        for index in range(count):
            slot = slots[index]
            pending = book.calls.get(slot)  # None: who asked was before this process
            if pending is not None:
                if pending.connection is not None:
                    self._answer(slot, pending, pending.connection)
                del book.calls[slot]
            book.release(slot)
        return count

    def _deliver(self, slot: int, pending: PendingCall, connection: Connection) -> None:
        status, body = self._book.answer(slot)
        message = b""
        if status > states.Status.MESSAGE:  # the call has no answer of its own
            message = self._book.message(slot)
            self._count_unanswered(status)
            if status == states.Status.EXPIRED and (limit_ns := self._book.method_timeout_ns(slot)):
                status, body = states.Status.ERROR, deadline_exceeded(limit_ns)
        connection.calls.discard(slot)
        self._note(connection, self._book.arrived_ns(slot))
        self._replies.deliver(pending, status, body, message)

    def _charged_answer(self, slot: int, pending: PendingCall, connection: Connection) -> None:
        """The same, where the time that it takes is charged."""
        began_ns = self._clock()
        self._deliver(slot, pending, connection)
        self._arrivals.responded(slot, self._clock() - began_ns)

    def _count_unanswered(self, status: int) -> None:
        if status == states.Status.DIED:
            self._counts[Counter.DIED] += 1
        elif status == states.Status.EXPIRED:
            self._counts[Counter.EXPIRED] += 1
