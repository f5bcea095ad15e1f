"""One reader process: it owns its connections for life, puts their calls into the queue and writes
their answers.

A pass: what epoll says -> a turn for each connection with calls, by caller in turn -> one enqueue
-> answers collected and sent -> what expired is withdrawn. Between passes it waits (`waiting`).
"""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable

from ...shm import doorbells
from ...shm.shared import Shared
from ...shm.states import Phase
from ...workers.envelope import Decoded, decode
from ...workers.log_level import LogLevel
from .admission import Admission
from .adoption import Adoption
from .answers import Answers
from .arrivals import Arrivals
from .authentication import Authentication
from .builtins import Builtins
from .callbook import CallBook
from .caller_counts import CallerCounts
from .callers import Callers
from .cancel_order import Cancelled, CancelOrder
from .clients import Clients
from .connections import Connections
from .ending import Ending
from .enqueuer import Enqueuer
from .explanation import Explanation
from .intake import Intake
from .interest import READ
from .places import Places
from .rate_changes import RateChanges
from .replies import Replies
from .settings import LiveSettings, ReaderSettings
from .sources import Events, Sources
from .staging import AdmissionLimits, Staging
from .timeouts import ConnectionTimeouts
from .waiting import Patience, Waiting
from .withdrawals import Withdrawals

CALLS_PER_PASS = 16  # of all connections together, before answers are looked at again
ADOPT_AT_MOST = 4  # connections per pass
IDLE_MS = 1000  # longest sleep, for the heartbeat
HELD_NS = 100_000_000  # how often a server that drains looks at calls that limiters hold
BLOCKED_MS = 5  # sleep while calls wait for room (with back-off off)


class Reader:
    """`do_work` is one pass; `run` sleeps and passes until the server stops."""

    def __init__(
        self,
        shared: Shared,
        number: int,
        handoff: socket.socket,
        settings: ReaderSettings,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.shared, self.number, self._clock = shared, number, clock
        self._q, self._table = shared.segment.q, shared.table
        self._row = row = shared.row("reader", number)
        self._beat, self._connections = row.word("beat_ns"), row.word("connections")
        self._sources = Sources()
        self._watched: dict[int, Callable[[], None]] = {}
        self._build(settings)
        self._table.follow_policy()
        self._log_level = LogLevel(shared)
        self._listen(handoff)

    def _build(self, settings: ReaderSettings) -> None:
        """Its parts, from the call table outwards to the clients."""
        shared, number, index, clock = self.shared, self.number, self._row.index, self._clock
        counts, rules, live = shared.columns.own(index), settings.rules, settings.live
        limits, backoff = live.limits, live.backoff_rules
        self._grace_ns, self._look_at_held_ns = live.grace_ns, 0
        decoder = _decoder(live.admission_limits)
        self.book = book = CallBook(shared, number)
        shared.names.no_strangers = live.service_users
        self._rate_changes = RateChanges(shared, book)
        replies = Replies(counts, settings.wire_limits.busy_http_status, decoder)
        self._arrivals = arrivals = Arrivals(shared, index, settings.costs, backoff.charge_refused)
        self._counted = counted = CallerCounts(shared, number, arrivals, clock())
        self.enqueuer = enqueuer = Enqueuer(
            shared, counts, book, replies, arrivals, backoff, counted
        )
        self._withdrawals = Withdrawals(shared, number, counts, book, enqueuer, replies, clock)
        patience = Patience(settings.waiting)
        turned_away = enqueuer.turned_away
        self._answers = Answers(
            shared, number, counts, book, replies, arrivals, patience, clock, turned_away, counted
        )
        self._collect = collect = self._answers.collect

        newcomers = rules.newcomers(shared)
        self.callers = Callers(shared.names, 2 * settings.identities, newcomers)
        self.authentication = authentication = Authentication(
            self.callers, rules.tokens, rules.proxies, rules.required
        )
        identities = rules.identities(shared, newcomers, counts)
        self._explanation = Explanation(shared, live.level_rules)
        builtins = Builtins(authentication, self._withdrawals.cancel, self._explanation, counts)
        self._staging = Staging(
            shared,
            book,
            enqueuer,
            arrivals,
            replies,
            counts,
            live.admission_limits,
            live.reserved,
            book.throttle,
            Places(shared, settings.groups),
        )
        self._admission = admission = Admission(
            shared,
            index,
            authentication,
            identities,
            builtins,
            replies,
            self._staging,
            counted,
            decoder,
        )

        connections = Connections(self._sources, limits, self._withdrawals.drop)
        adoption = Adoption(
            authentication, settings.trusted, rules.proxy_protocol, settings.wire_limits
        )
        intake = Intake(shared, counts, connections, admission, adoption, limits)
        self.clients = Clients(counts, connections, adoption, intake, limits)
        self._timeouts = ConnectionTimeouts(self.clients, live.timeouts)
        self._waiting = Waiting(
            shared, number, self._sources, book, enqueuer.drain, collect, settings.waiting, clock
        )
        self._turn = min(limits.calls_per_pass, self._table.slots_per_reader)

    def configure(self, live: LiveSettings) -> None:
        """Go by these from now on, with the connections that there are, too."""
        self.clients.configure(live.limits)
        self.shared.names.no_strangers = live.service_users
        self._staging.limits = live.admission_limits
        self._staging.lanes.reserve(live.reserved, self._staging.rows)
        self._explanation.rules = live.level_rules
        self._timeouts.configure(live.timeouts)
        self._grace_ns = live.grace_ns
        self._arrivals.charge_refused = live.backoff_rules.charge_refused
        self.enqueuer.configure(live.backoff_rules)
        self._turn = min(live.limits.calls_per_pass, self._table.slots_per_reader)

    def cancel(self, order: CancelOrder) -> Cancelled:
        """Answer calls "cancelled" for an administrator; how many."""
        found = self._withdrawals.cancel_all(order)
        self.clients.settle(self._clock())
        return found

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
        clients, staging = self.clients, self._staging
        staging.draining = self.shared.phase.reached(Phase.DRAINING)
        self._attend(events, now_ns)
        calls, ready = 0, clients.ready
        blocks = not self._table.policy.backoff
        while ready.callers and calls < CALLS_PER_PASS and (not blocks or self._has_room()):
            calls += clients.serve(ready.next(), now_ns) or 1
            if blocks:
                self.enqueuer.flush(now_ns)  # a full queue stops this connection at once
        if calls:
            self._admission.charge()
        self.enqueuer.flush(now_ns)
        answers = self._collect() if self._table.has_answers(self.number) else 0
        if now_ns >= self.book.next_deadline_ns:
            self._withdrawals.expire(now_ns)
        self._rate_changes.look(now_ns)
        self._timeouts.check(now_ns)
        if now_ns >= self._counted.next_ns:
            self._counted.publish(now_ns)
        clients.settle(now_ns)
        self._q[self._connections] = len(clients.by_fd)
        self.book.return_pages()
        if staging.draining:
            self._drain(now_ns)
        return calls + answers

    def _attend(self, events: Events, now_ns: int) -> None:
        by_fd, read, on_event = self.clients.by_fd, self.clients.read, self.clients.on_event
        for fd, event in events:
            connection = by_fd.get(fd)
            if connection is not None:
                if event == READ and not connection.queued:
                    read(connection, now_ns)
                else:
                    on_event(connection, event, now_ns)
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
        if self._table.policy.backoff or self._staging.draining:
            return True
        return self.book.free >= self._turn

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

    def _drain(self, now_ns: int) -> None:
        """What the grace period does not help is refused; whether nothing is in flight and nothing
        is unsent."""
        if now_ns >= self._look_at_held_ns:
            self._look_at_held_ns = now_ns + HELD_NS
            ends_ns = self.shared.phase.since_ns + self._grace_ns
            self._withdrawals.turn_away_held(ends_ns, now_ns)
            self.clients.settle(now_ns)
        unsent = any(connection.unsent for connection in self.clients.by_fd.values())
        self._row["quiet"] = int(not unsent and not self.book.calls)


def _decoder(limits: AdmissionLimits) -> Callable[[bytes], Decoded]:
    """A `partial` would make a dictionary of its keywords at each message."""
    most, depth, id_bytes = limits.max_batch, limits.max_depth, limits.max_id_bytes
    return lambda message: decode(message, max_batch=most, max_depth=depth, max_id_bytes=id_bytes)
