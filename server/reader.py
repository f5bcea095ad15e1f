"""One reader process: it owns its connections for life, puts their calls into the queue and writes
their answers.

A pass: what epoll says -> a turn for each connection with calls, by caller in turn -> one enqueue
-> answers collected and sent -> what expired is withdrawn. It sleeps as `shm.doorbells` says.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from collections.abc import Callable, Iterable

from ..shm import doorbells, states
from ..shm.columns import Counter
from ..shm.shared import Shared
from ..shm.states import Phase
from ..shm.table import ANSWERED, GIVEN_UP, WITHDRAWN
from . import refusals
from .admission import NEVER_NS, Admission, AdmissionLimits
from .builtins import Builtins
from .callbook import CallBook
from .callers import Callers
from .clients import ClientLimits, Clients
from .connection import Connection
from .enqueuer import Enqueuer
from .exchange import PendingCall
from .replies import Replies
from .timeouts import ConnectionTimeouts, Timeouts
from .trusted_peers import TrustedPeers
from .wire.limits import WireLimits

log = logging.getLogger("faircall.reader")

COLLECT_AT_MOST = 256  # answers per pass
CALLS_PER_PASS = 128  # of all connections together, before answers are looked at again
ADOPT_AT_MOST = 64  # connections per pass
IDLE_MS = 1000  # longest sleep, for the heartbeat
BLOCKED_MS = 5  # sleep while calls wait for room (with back-off off)


class Reader:
    """`do_work` is one pass; `run` repeats it until the server stops."""

    def __init__(
        self,
        shared: Shared,
        number: int,
        handoff: socket.socket,
        *,
        trusted: TrustedPeers,
        wire_limits: WireLimits,
        limits: ClientLimits,
        admission_limits: AdmissionLimits,
        timeouts: Timeouts,
        backoff: bool = True,
        identities: int = 4096,
    ) -> None:
        self.shared, self.number, self._handoff = shared, number, handoff
        self._q, self._table = shared.segment.q, shared.table
        self._row = shared.row("reader", number)
        self._beat, self._sleeping = self._row.word("beat_ns"), self._row.word("sleeping")
        index = self._row.index
        self._epoll = select.epoll()
        self.book = CallBook(shared, number)
        callers = Callers(shared.names, 2 * identities)
        replies = Replies(shared.columns, index, wire_limits.busy_http_status)
        self._replies = replies
        self.enqueuer = Enqueuer(shared, index, self.book, replies, backoff)
        builtins = Builtins(callers, self.cancel, self._claim_refused)
        self.admission = Admission(
            shared,
            index,
            self.book,
            callers,
            builtins,
            replies,
            self.enqueuer,
            admission_limits,
        )
        self.clients = Clients(
            shared,
            index,
            self._epoll,
            self.admission,
            callers,
            trusted,
            wire_limits,
            limits,
            self._drop,
        )
        self._timeouts = ConnectionTimeouts(self.clients, timeouts)
        self._bell = shared.doorbells.readers[number]
        self._epoll.register(self._bell, select.EPOLLIN)
        handoff.setblocking(False)  # recv_fds ignores its flags
        self._epoll.register(handoff.fileno(), select.EPOLLIN)
        self._collected = [0] * COLLECT_AT_MOST
        self._count = shared.columns.add

    def run(self) -> None:
        """Until the supervisor says STOPPED."""
        while self.shared.phase.get() != Phase.STOPPED:
            self.do_work()

    def do_work(self) -> None:
        """One pass; it sleeps first if there is nothing to do."""
        events = self._wait()
        now_ns = time.monotonic_ns()
        self._q[self._beat] = now_ns
        by_fd, clients = self.clients.by_fd, self.clients
        for fd, event in events:
            connection = by_fd.get(fd)
            if connection is not None:
                clients.on_event(connection, event, now_ns)
            elif fd == self._bell:
                doorbells.clear(fd)
            else:
                self._adopt(now_ns)
        calls = 0
        while clients.ready and calls < CALLS_PER_PASS:
            calls += clients.serve(clients.ready.next(), now_ns) or 1
        self.enqueuer.flush(now_ns)
        self._collect()
        if now_ns >= self.admission.next_deadline_ns:
            self._expire(now_ns)
        self._timeouts.check(now_ns)
        clients.settle(now_ns)
        self.book.return_pages()
        if self.shared.phase.get() >= Phase.DRAINING:
            self._tell_quiet()

    def cancel(self, connection: Connection, id_: bytes) -> bool:
        """Give up the call of `connection` with this raw id; its answer is "cancelled"."""
        for slot in connection.calls:
            if self.book.calls[slot].id == id_:
                return self._withdraw([slot], refusals.CANCELLED, Counter.CANCELLED) > 0
        return False

    # -- sleeping --------------------------------------------------------------------------------

    def _wait(self) -> list[tuple[int, int]]:
        if self.clients.ready:
            return self._epoll.poll(0)
        self._q[self._sleeping] = 1
        try:
            if self._answers_wait():
                return self._epoll.poll(0)
            return self._epoll.poll(self._sleep_s())
        finally:
            self._q[self._sleeping] = 0

    def _answers_wait(self) -> bool:
        """Look once more, after `sleeping` was stored: taking the lock is the barrier."""
        return self._collect() > 0

    def _sleep_s(self) -> float:
        if self.enqueuer.blocked:
            return BLOCKED_MS / 1000
        wake_ns = min(self.admission.next_deadline_ns, self._timeouts.next_ns)
        return min(IDLE_MS / 1000, max(0, wake_ns - time.monotonic_ns()) / 1e9)

    # -- answers ---------------------------------------------------------------------------------

    def _collect(self) -> int:
        """Take answered calls, answer their exchanges, release their slots; how many."""
        book, slots = self.book, self._collected
        count = self._table.collect(self.number, slots)
        for index in range(count):
            slot = slots[index]
            pending = book.calls.get(slot)
            if pending is None:
                book.adopt_unknown(slot)
                continue
            if pending.connection is not None:
                status, body = book.answer(slot)
                if status == states.Status.DIED:
                    self._count(self._row.index, Counter.DIED)
                self._finish(slot, pending)
                self._replies.deliver(pending, status, body, book.message(slot))
            del book.calls[slot]
            book.release(slot)
        return count

    def _finish(self, slot: int, pending: PendingCall) -> None:
        connection = pending.connection
        if connection is not None:
            connection.calls.discard(slot)
            connection.touch()

    # -- giving up -------------------------------------------------------------------------------

    def _expire(self, now_ns: int) -> None:
        """Answer what is past its deadline, and note when the next call is."""
        due, earliest = [], NEVER_NS
        for slot, pending in self.book.calls.items():
            if pending.deadline_ns <= now_ns:
                due.append(slot)
            elif pending.deadline_ns < earliest:
                earliest = pending.deadline_ns
        self.admission.next_deadline_ns = earliest
        if due:
            self._withdraw(due, refusals.EXPIRED, Counter.EXPIRED)

    def _drop(self, slots: Iterable[int]) -> None:
        """The connection of these calls is closed: nobody waits."""
        for slot in list(slots):
            self.book.calls[slot].connection = None
        self._withdraw(list(slots), b"", Counter.DROPPED)

    def _withdraw(self, slots: list[int], error: bytes, counter: Counter) -> int:
        """Give up calls and answer them with `error`; how many were not answered before."""
        book, given_up = self.book, 0
        accepted = [slot for slot in slots if not self._take_back(slot, error, counter)]
        given_up += len(slots) - len(accepted)
        outcomes = [ANSWERED] * len(accepted)
        if accepted:
            self._table.withdraw(self.number, accepted, outcomes)
        for slot, outcome in zip(accepted, outcomes, strict=True):
            if outcome == ANSWERED:
                continue
            given_up += 1
            pending = book.calls[slot]
            self._refuse(slot, pending, error, counter)
            pending.deadline_ns = NEVER_NS
            if outcome == WITHDRAWN:
                del book.calls[slot]
                book.freed(slot)
            else:
                assert outcome == GIVEN_UP
                pending.connection = None  # the slot comes back through the answer ring
        return given_up

    def _take_back(self, slot: int, error: bytes, counter: Counter) -> bool:
        """A call that was not accepted yet never existed for anybody else."""
        pending = self.book.calls[slot]
        message = self.book.message(slot)
        if not self.enqueuer.withdraw(slot):
            return False
        self._refuse_message(slot, pending, error, counter, message)
        return True

    def _refuse(self, slot: int, pending: PendingCall, error: bytes, counter: Counter) -> None:
        self._refuse_message(slot, pending, error, counter, self.book.message(slot))

    def _refuse_message(
        self, slot: int, pending: PendingCall, error: bytes, counter: Counter, message: bytes
    ) -> None:
        self._count(self._row.index, counter)
        self._finish(slot, pending)
        if error:
            self._replies.refuse(pending, error, message)

    # -- the rest --------------------------------------------------------------------------------

    def _adopt(self, now_ns: int) -> None:
        for _ in range(ADOPT_AT_MOST):
            try:
                message, fds, _, _ = socket.recv_fds(self._handoff, 16, 4)
            except BlockingIOError:
                return
            if not message and not fds:
                return
            for fd in fds:
                self.clients.adopt(socket.socket(fileno=fd), now_ns)
            self._row["connections"] = len(self.clients.by_fd)

    def _claim_refused(self) -> None:
        self._count(self._row.index, Counter.CLAIMS_REFUSED)

    def _tell_quiet(self) -> None:
        """While draining: whether nothing is in flight and nothing is unsent."""
        unsent = any(connection.unsent for connection in self.clients.by_fd.values())
        self._row["quiet"] = int(not unsent and not self.book.calls)


def run_reader(make: Callable[[], Reader], report: Callable[[str], None]) -> int:
    """The life of a reader process, after the fork: its exit status."""
    reader = make()
    reader.shared.row("reader", reader.number).enter()
    reader.shared.row("reader", reader.number)["status"] = states.Life.READY
    report("ready")
    log.debug("reader ready", {"index": reader.number, "pid": os.getpid()})
    reader.run()
    return 0
