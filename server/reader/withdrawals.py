"""Calls that nobody waits for any more: expired, cancelled, or their connection closed.

not accepted yet    it is taken back, and never was for anybody else
waits in the queue  the table gives its slot back at once
runs                its answer will be dropped; the slot comes back with it
answered            too late: the answer is on its way
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ...shm import states
from ...shm.answers import ANSWERED, GIVEN_UP, WITHDRAWN
from ...shm.columns import Counter
from ...shm.outlook import held_beyond
from ...shm.rings import W_SEQ
from ...shm.shared import Shared
from ...workers.errors import deadline_exceeded
from . import refusals
from .callbook import NEVER_NS, CallBook
from .cancel_order import Cancelled, CancelOrder
from .connection import Connection
from .enqueuer import Enqueuer
from .exchange import PendingCall
from .replies import Replies

CALLS_AT_A_TIME = 256  # that are given up under one lock


class Withdrawals:
    """Those of reader `number`, whose counters are `counts`."""

    def __init__(
        self,
        shared: Shared,
        number: int,
        counts: memoryview,
        book: CallBook,
        enqueuer: Enqueuer,
        replies: Replies,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._clock = clock
        self._table, self._number, self._counts = shared.table, number, counts
        self._book, self._enqueuer, self._replies = book, enqueuer, replies
        self._time = shared.histograms.of_reader(number).answered

    def expire(self, now_ns: int) -> None:
        """Answer what is past its deadline, and note when the next call is."""
        due, earliest = [], NEVER_NS
        for slot, pending in self._book.calls.items():
            if pending.deadline_ns <= now_ns:
                due.append(slot)
            elif pending.deadline_ns < earliest:
                earliest = pending.deadline_ns
        self._book.next_deadline_ns = earliest
        by_timeout: dict[int, list[int]] = {}
        for slot in due:
            by_timeout.setdefault(self._book.method_timeout_ns(slot), []).append(slot)
        for method_timeout_ns, slots in by_timeout.items():
            error = deadline_exceeded(method_timeout_ns)
            self._give_up(slots, error, Counter.EXPIRED, answered_ns=now_ns)

    def cancel(self, connection: Connection, id_: bytes) -> bool:
        """Answer the call of `connection` with this raw id "cancelled"; False if there is none."""
        for slot in connection.calls:
            if self._book.calls[slot].id == id_:
                return self._give_up([slot], refusals.CANCELLED, Counter.CANCELLED) > 0
        return False

    def cancel_all(self, order: CancelOrder) -> Cancelled:
        """Answer the calls that an administrator means "cancelled", but those given up already."""
        calls, waiting, running = self._book.calls, 0, 0
        slots = [slot for slot in calls if self._is_meant(slot, order)]
        for first in range(0, len(slots), CALLS_AT_A_TIME):
            some = slots[first : first + CALLS_AT_A_TIME]
            count = self._give_up(some, refusals.CANCELLED, Counter.CANCELLED)
            ended = sum(slot in calls and calls[slot].deadline_ns == NEVER_NS for slot in some)
            waiting, running = waiting + count - ended, running + ended
        return Cancelled(waiting, running)

    def _is_meant(self, slot: int, order: CancelOrder) -> bool:
        book, pending = self._book, self._book.calls[slot]
        if pending.caller != order.user or pending.deadline_ns == NEVER_NS:
            return False
        if order.method is not None and book.method(slot) != order.method:
            return False
        return order.context is None or book.context(slot) == order.context

    def turn_away(self) -> None:
        """The server ends: what has not begun is refused, what runs is left alone."""
        waiting = [slot for slot in self._book.calls if not self._book.has_begun(slot)]
        too_late = (ANSWERED, GIVEN_UP)  # a handler was faster
        self._give_up(waiting, refusals.SHUTTING_DOWN, Counter.SHUTTING_DOWN, too_late)

    def turn_away_held(self, until_ns: int, now_ns: int) -> None:
        """The server ends then: calls that limiters hold longer are refused; another server may
        take them by now."""
        late = held_beyond(self._table, until_ns, now_ns)
        mine = [slot for slot in self._book.calls if slot in late]
        self._give_up(mine, refusals.SHUTTING_DOWN, Counter.SHUTTING_DOWN, begun=False)

    def drop(self, slots: Iterable[int]) -> None:
        """The connection of these calls is closed."""
        slots = list(slots)
        for slot in slots:
            self._book.calls[slot].connection = None
        self._give_up(slots, b"", Counter.DROPPED)

    def _give_up(
        self,
        slots: list[int],
        error: bytes,
        counter: Counter,
        too_late: tuple[int, ...] = (ANSWERED,),
        *,
        begun: bool = True,
        answered_ns: int = 0,
    ) -> int:
        """Withdraw calls and answer them with `error`, but those that are `too_late`; how many.

        What is answered at `answered_ns` counts in the latencies; at 0 it does not.
        """
        book = self._book
        staged = {slot for slot in slots if book.is_staged(slot)}
        accepted = [slot for slot in slots if slot not in staged]
        # Read before the slots are given back: an undecoded request names the ids to answer.
        messages = {slot: book.message(slot) for slot in slots if self._is_undecoded(slot)}
        given_up = [(slot, book.calls[slot]) for slot in staged]
        if staged:
            self._enqueuer.take_back(staged)
        if accepted:
            is_dropped = counter is not Counter.SHUTTING_DOWN
            given_up += self._withdraw(accepted, too_late, begun, is_dropped)
        if answered_ns:
            self._time([slot for slot, _ in given_up], answered_ns)
        for slot, pending in given_up:
            self._answer(slot, pending, error, messages.get(slot, b""))
        self._counts[counter] += len(given_up)
        return len(given_up)

    def _withdraw(
        self, slots: list[int], too_late: tuple[int, ...], begun: bool, is_dropped: bool
    ) -> list[tuple[int, PendingCall]]:
        """Give up accepted calls; those whose outcome is not `too_late`.

        What is dropped is charged, if it is to be, in order of arrival: the head of a batch before
        the others, for all of it.
        """
        book, given_up, charged_ns = self._book, [], None
        if is_dropped and book.throttle.charges_dropped:
            charged_ns = self._clock()
            slots = sorted(slots, key=lambda slot: int(self._table.words[slot, W_SEQ]))
        outcomes = [ANSWERED] * len(slots)
        self._table.withdraw(self._number, slots, outcomes, begun=begun, charged_ns=charged_ns)
        for slot, outcome in zip(slots, outcomes, strict=True):
            if outcome in too_late:
                continue
            given_up.append((slot, book.calls[slot]))
            if outcome == WITHDRAWN:
                del book.calls[slot]
                book.freed(slot)
        return given_up

    def _answer(self, slot: int, pending: PendingCall, error: bytes, message: bytes) -> None:
        """The last word about `pending`; if it runs, what its handler says is dropped."""
        connection = pending.connection
        if connection is not None:
            connection.calls.discard(slot)
            self._replies.refuse(pending, error, message)
            pending.connection = None
        pending.deadline_ns = NEVER_NS

    def _is_undecoded(self, slot: int) -> bool:
        pending = self._book.calls[slot]
        return bool(pending.flags & states.UNDECODED) and pending.connection is not None
