"""The way back: answered calls are collected, their answers delivered, their slots released."""

from __future__ import annotations

from collections.abc import Callable

from ...shm import states
from ...shm.columns import Counter
from ...shm.layout import SLOT, word_of
from ...shm.rings import SLOT_WORDS
from ...shm.shared import Shared
from ...workers.errors import deadline_exceeded
from .arrivals import Arrivals
from .callbook import CallBook
from .caller_counts import CallerCounts
from .connection import Connection
from .exchange import PendingCall
from .replies import Replies
from .waiting import Patience

COLLECT_AT_MOST = 256  # answers per pass

_ARRIVED = word_of(SLOT, "arrived_ns")
_MESSAGE = int(states.Status.MESSAGE)


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
        turned_away: Callable[[int, PendingCall, int], None],
        counted: CallerCounts,
    ) -> None:
        """`turned_away` refuses the call in a slot that a handler found no room to hold."""
        self._table, self._number, self._counts = shared.table, number, counts
        self._book, self._replies, self._arrivals = book, replies, arrivals
        self._q, self._arrived0 = shared.segment.q, shared.table.slot0 + _ARRIVED
        self._calls, self._release = book.calls, book.release
        self._note, self._clock, self._counted = patience.note, clock, counted.answered
        self._turned_away = turned_away
        self._answer = self._charged_answer if arrivals.charges_responses else self._deliver
        self._time = shared.histograms.of_reader(number).answered
        self._collected = [0] * COLLECT_AT_MOST

    def collect(self) -> int:
        """Take answered calls, answer their exchanges, release their slots; how many."""
        slots, answered = self._collected, []
        count = self._table.collect(self._number, slots)
        if not count:
            return 0
        now_ns, calls, read = self._clock(), self._calls, self._book.answer
        answer, counted = self._answer, self._counted
        taken = slots[:count]
        for slot in taken:
            pending = calls.get(slot)  # None: who asked was before this process
            if pending is not None:
                status, body = read(slot)
                if pending.connection is not None:
                    answer(slot, status, body, pending, pending.connection, now_ns)
                    answered.append(slot)
                if status <= _MESSAGE and pending.tally is not None:
                    counted(slot, pending.tally)
                del calls[slot]
        self._release(taken)
        if answered:
            self._time(answered, self._clock())
        return count

    def _deliver(
        self,
        slot: int,
        status: int,
        body: bytes,
        pending: PendingCall,
        connection: Connection,
        now_ns: int,
    ) -> None:
        connection.calls.discard(slot)
        message = b""
        if status > _MESSAGE:  # the call has no answer of its own
            if status == states.Status.THROTTLED:
                self._turned_away(slot, pending, now_ns)
                return
            message = self._book.message(slot)
            self._count_unanswered(status)
            if status == states.Status.EXPIRED and (limit_ns := self._book.method_timeout_ns(slot)):
                status, body = states.Status.ERROR, deadline_exceeded(limit_ns)
        self._note(connection, now_ns - self._q[self._arrived0 + slot * SLOT_WORDS])
        self._replies.deliver(pending, status, body, message)

    def _charged_answer(
        self,
        slot: int,
        status: int,
        body: bytes,
        pending: PendingCall,
        connection: Connection,
        now_ns: int,
    ) -> None:
        """The same, where the time that it takes is charged."""
        began_ns = self._clock()
        self._deliver(slot, status, body, pending, connection, now_ns)
        self._arrivals.responded(slot, self._clock() - began_ns)

    def _count_unanswered(self, status: int) -> None:
        if status == states.Status.DIED:
            self._counts[Counter.DIED] += 1
        elif status == states.Status.EXPIRED:
            self._counts[Counter.EXPIRED] += 1
