"""One reader process: it owns its connections for life, puts their calls into the queue and writes
their answers.

A pass: what epoll says -> a turn for each connection with calls, by caller in turn -> one enqueue
-> answers collected and sent -> what expired is withdrawn. Between passes it waits (`waiting`).
"""

from __future__ import annotations

import functools
import gc
import socket
import time
from collections.abc import Callable

from ...scheduling.cost import CostRules
from ...shm import doorbells, states
from ...shm.columns import Counter
from ...shm.shared import Shared
from ...shm.states import Phase
from ...workers.envelope import Decoded, decode
from ...workers.log_level import LogLevel
from ..settings.trusted_peers import TrustedPeers
from ..wire.limits import WireLimits
from .admission import Admission, AdmissionLimits
from .arrivals import Arrivals
from .authentication import Authentication
from .backoff import BackOffRules
from .builtins import Builtins
from .callbook import CallBook
from .caller_rules import CallerRules
from .callers import Callers
from .client_limits import ClientLimits
from .clients import Clients
from .connection import Connection
from .ending import Ending
from .enqueuer import Enqueuer
from .exchange import PendingCall
from .replies import Replies
from .sources import Events, Sources
from .timeouts import ConnectionTimeouts, Timeouts
from .waiting import NO_WAITS, Waiting, WaitLimits
from .withdrawals import Withdrawals

COLLECT_AT_MOST = 256  # answers per pass
CALLS_PER_PASS = 128  # of all connections together, before answers are looked at again
ADOPT_AT_MOST = 64  # connections per pass
IDLE_MS = 1000  # longest sleep, for the heartbeat
BLOCKED_MS = 5  # sleep while calls wait for room (with back-off off)


class Reader:
    """`do_work` is one pass; `run` sleeps and passes until the server stops."""

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
        rules: CallerRules | None = None,
        backoff_rules: BackOffRules | None = None,
        costs: CostRules | None = None,
        identities: int = 4096,
        waiting: WaitLimits = NO_WAITS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.shared, self.number, self._clock = shared, number, clock
        self._q, self._table = shared.segment.q, shared.table
        self._row = row = shared.row("reader", number)
        self._counts = counts = shared.columns.own(row.index)
        take_apart = _decoder(admission_limits)
        self.book = book = CallBook(shared, number)
        self._replies = replies = Replies(counts, wire_limits.busy_http_status, take_apart)
        backoff_rules = backoff_rules or BackOffRules()
        self._arrivals = arrivals = Arrivals(
            shared, row.index, costs or CostRules(), backoff_rules.charge_refused
        )
        self.enqueuer = Enqueuer(shared, counts, book, replies, arrivals, backoff_rules)
        self._answer = self._charged_answer if arrivals.charges_responses else self._deliver
        self._withdrawals = Withdrawals(shared, number, counts, book, self.enqueuer, replies)
        rules = rules or CallerRules()
        newcomers = rules.newcomers(shared)
        self.callers = callers = Callers(shared.names, 2 * identities, newcomers)
        self.authentication = authentication = Authentication(
            callers, rules.tokens, rules.proxies, rules.required
        )
        builtins = Builtins(authentication, self._withdrawals.cancel, counts)
        self._admission = admission = Admission(
            shared, row.index, book, callers, authentication,
            rules.identities(shared, newcomers, counts), builtins, replies, self.enqueuer,
            take_apart, admission_limits, arrivals,
        )  # fmt: skip
        self._sources = Sources()
        self._watched: dict[int, Callable[[], None]] = {}
        self.clients = Clients(
            shared, counts, self._sources, admission, callers, authentication, trusted, rules,
            wire_limits, limits, self._withdrawals.drop,
        )  # fmt: skip
        self._timeouts = ConnectionTimeouts(self.clients, timeouts)
        self._collected = [0] * COLLECT_AT_MOST
        self._waiting = Waiting(
            shared, number, self._sources, book, self.enqueuer.drain, self._collect, waiting, clock
        )
        self._turn = min(limits.calls_per_pass, self.book.free)
        self._table.follow_policy()
        self._log_level = LogLevel(shared)
        self._listen(handoff)

    def configure(
        self,
        limits: ClientLimits,
        admission_limits: AdmissionLimits,
        timeouts: Timeouts,
        backoff_rules: BackOffRules,
    ) -> None:
        """Go by these from now on, with the connections that there are, too."""
        self.clients.configure(limits)
        self._admission.configure(admission_limits)
        self._timeouts.configure(timeouts)
        self._arrivals.charge_refused = backoff_rules.charge_refused
        self.enqueuer.configure(backoff_rules)
        self._turn = min(limits.calls_per_pass, self._table.slots_per_reader)

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call `call` whenever `fd` is readable or at its end, until it is not watched any more."""
        self._watched[fd] = call
        self._sources.listen(fd)

    def unwatch(self, fd: int) -> None:
        del self._watched[fd]
        self._sources.ignore(fd)

    def _listen(self, handoff: socket.socket) -> None:
        self._bell, self._handoff = self.shared.doorbells.readers[self.number], handoff
        self._sources.listen(self._bell)
        handoff.setblocking(False)  # recv_fds ignores its flags
        self._sources.listen(handoff.fileno())
        self._beat, self._connections = self._row.word("beat_ns"), self._row.word("connections")

    def run(self) -> None:
        """Until the supervisor says STOPPED, and clients were told."""
        gc.freeze()  # what was loaded so far stays: no collection has to look at it
        phase = self.shared.phase
        while not phase.reached(Phase.STOPPED):
            self._pass(self._wait())
        poll, clients = self._sources.poll, self.clients
        Ending(clients, self._withdrawals, poll, self._pass, self._clock).run()

    def do_work(self) -> int:
        """One pass without sleeping; how many calls and answers it moved."""
        return self._pass(self.poll())

    def poll(self) -> Events:
        """What epoll says, without sleeping."""
        return self._sources.poll(0)

    def _pass(self, events: Events) -> int:
        now_ns = self._clock()
        self._q[self._beat] = now_ns
        clients, admission = self.clients, self._admission
        admission.draining = self.shared.phase.reached(Phase.DRAINING)
        self._attend(events, now_ns)
        calls = 0
        while clients.ready and calls < CALLS_PER_PASS and self._has_room():
            calls += clients.serve(clients.ready.next(), now_ns) or 1
            if not self._table.policy.backoff:
                self.enqueuer.flush(now_ns)  # a full queue stops this connection at once
        self.enqueuer.flush(now_ns)
        answers = self._collect() if self._table.has_answers(self.number) else 0
        if now_ns >= self.book.next_deadline_ns:
            self._withdrawals.expire(now_ns)
        self._timeouts.check(now_ns)
        clients.settle(now_ns)
        self._q[self._connections] = len(clients.by_fd)
        self.book.return_pages()
        if admission.draining:
            self._tell_quiet()
        return calls + answers

    def _attend(self, events: Events, now_ns: int) -> None:
        clients = self.clients
        for fd, event in events:
            connection = clients.by_fd.get(fd)
            if connection is not None:
                clients.on_event(connection, event, now_ns)
            elif fd == self._bell:
                doorbells.clear(fd)
            elif fd == self._handoff.fileno():
                self._adopt(now_ns)
            elif fd in self._watched:
                self._watched[fd]()

    # -- sleeping --------------------------------------------------------------------------------

    def _wait(self) -> Events:
        waits_for_turns = bool(self.clients.ready)
        if waits_for_turns and self._has_room():
            return self.poll()
        self._log_level.follow()
        return self._waiting.wait(self._sleep_s, full=waits_for_turns)

    def _sleep_s(self) -> float:
        if self.enqueuer.blocked or self.clients.ready:
            return BLOCKED_MS / 1000
        wake_ns = min(self.book.next_deadline_ns, self._timeouts.next_ns)
        return min(IDLE_MS / 1000, max(0, wake_ns - self._clock()) / 1e9)

    def _has_room(self) -> bool:
        """Whether a connection may have its turn: with back-off off, nothing is refused for want
        of slots; connections wait in the ready list until some are free. Who drains needs none."""
        if self._table.policy.backoff or self._admission.draining:
            return True
        return self.book.free >= self._turn

    # -- answers ---------------------------------------------------------------------------------

    def _collect(self) -> int:
        """Take answered calls, answer their exchanges, release their slots; how many."""
        book, slots = self.book, self._collected
        count = self._table.collect(self.number, slots)
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
        status, body = self.book.answer(slot)
        message = b""
        if status > states.Status.MESSAGE:  # the call has no answer of its own
            message = self.book.message(slot)
            self._count_unanswered(status)
        connection.calls.discard(slot)
        self._waiting.note(connection, self.book.arrived_ns(slot))
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

    # -- the rest --------------------------------------------------------------------------------

    def _adopt(self, now_ns: int) -> None:
        for _ in range(ADOPT_AT_MOST):
            try:
                message, fds, _, _ = socket.recv_fds(self._handoff, 16, 4)
            except BlockingIOError:
                return
            if not message and not fds:
                self._sources.ignore(self._handoff.fileno())  # nobody is there to send any more
                return
            for fd in fds:
                self.clients.adopt(socket.socket(fileno=fd), now_ns)

    def close(self) -> None:
        """Give back its descriptors: for programs that outlive it."""
        self._sources.close()

    def _tell_quiet(self) -> None:
        """While draining: whether nothing is in flight and nothing is unsent."""
        unsent = any(connection.unsent for connection in self.clients.by_fd.values())
        self._row["quiet"] = int(not unsent and not self.book.calls)


def _decoder(limits: AdmissionLimits) -> Callable[[bytes], Decoded]:
    return functools.partial(
        decode,
        max_batch=limits.max_batch,
        max_depth=limits.max_depth,
        max_id_bytes=limits.max_id_bytes,
    )
