"""The connections of one reader: reading, taking calls, sending, closing.

`touched` collects the connections that something was put into during a pass; `settle` flushes them
once, and closes those that are over.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from dataclasses import dataclass

from ..shm.columns import Counter
from ..shm.shared import Shared
from ..shm.states import Phase
from .admission import Admission
from .callers import Callers, peer_of
from .connection import Connection
from .trusted_peers import TrustedPeers
from .turns import TurnList
from .wire.connection import Wire
from .wire.events import Close, Event, Health, Message, Send
from .wire.limits import WireLimits

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """What a reader grants each of its connections."""

    calls_per_pass: int = 16
    bytes_per_pass: int = 64 << 10
    max_in_flight: int = 1024
    http_pipelining: int = 64
    unsent_high_water_bytes: int = 1 << 20
    max_unfinished_of_connection: int = (16 << 20) + (64 << 10)
    max_unfinished_of_caller: int = 64 << 20
    max_unfinished_of_reader: int = 256 << 20


class Clients:
    """`dropped(slots)` is told the calls in flight of a connection that is closed."""

    def __init__(
        self,
        shared: Shared,
        index: int,
        epoll: select.epoll,
        admission: Admission,
        callers: Callers,
        trusted: TrustedPeers,
        wire_limits: WireLimits,
        limits: ClientLimits,
        dropped: Callable[[set[int]], None],
    ) -> None:
        self._shared, self._index, self._epoll = shared, index, epoll
        self._admission, self._callers, self._trusted = admission, callers, trusted
        self._tcp_limits, self._unix_limits = wire_limits, wire_limits.for_unix_socket()
        self._limits, self._dropped = limits, dropped
        self.by_fd: dict[int, Connection] = {}
        self.ready = TurnList()
        self.touched: set[Connection] = set()
        self.watched: set[Connection] = set()  # those that a time limit may apply to
        self.unfinished = 0  # bytes of input not taken yet, of all connections
        self._count = shared.columns.add

    def adopt(self, sock: socket.socket, now_ns: int) -> None:
        """A connection from the acceptor becomes this reader's."""
        try:
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = peer_of(sock, self._trusted)
        except OSError:  # it is gone already
            sock.close()
            return
        unix = sock.family == socket.AF_UNIX
        wire = Wire(self._unix_limits if unix else self._tcp_limits)
        caller = self._callers.get(peer.name, now_ns)
        connection = Connection(sock, wire, peer, caller, self.touched, now_ns)
        self.by_fd[connection.fd] = connection
        self.watched.add(connection)
        connection.interest = READ
        self._epoll.register(connection.fd, READ)
        self._count(self._index, Counter.CONNECTIONS)

    def on_event(self, connection: Connection, event: int, now_ns: int) -> None:
        """What epoll said of a connection."""
        if event & WRITE:
            connection.touch()
        if event & READ:
            self._read(connection, now_ns)
        elif event & (select.EPOLLHUP | select.EPOLLERR):
            self.close(connection)

    def serve(self, connection: Connection, now_ns: int) -> int:
        """One turn of a connection: at most a pass's calls and bytes; how many calls it was."""
        calls = taken = 0
        limits = self._limits
        while calls < limits.calls_per_pass and taken < limits.bytes_per_pass:
            if not self._may_take(connection):
                self._set_interest(connection)
                return calls
            event = connection.wire.next_event()
            if event is None:
                self._exhausted(connection)
                return calls
            if isinstance(event, Message):
                calls += self._admission.take(connection, event, now_ns)
                taken += len(event.body)
                connection.touch()
            elif self._other_event(connection, event):
                return calls
        self.ready.add(connection)  # more may be buffered: after the others
        return calls

    def settle(self, now_ns: int) -> None:
        """Send what was answered; close what is over; read on where that was stopped."""
        touched = list(self.touched)
        self.touched.clear()
        for connection in touched:
            if connection.closed:
                continue
            if not self._flush(connection, now_ns) or connection.is_over:
                self.close(connection)
                continue
            if connection.wire.buffered and not connection.queued and self._may_take(connection):
                self.ready.add(connection)
            self._set_interest(connection)

    def close(self, connection: Connection) -> None:
        """The connection ends now; its calls in flight are given up."""
        if connection.closed:
            return
        connection.closed = True
        self.ready.remove(connection)
        self.watched.discard(connection)
        self._account(connection, 0)
        self.by_fd.pop(connection.fd, None)
        if connection.interest:
            self._epoll.unregister(connection.fd)
        connection.sock.close()
        if connection.calls:
            self._dropped(connection.calls)

    def give_up(self, connection: Connection) -> None:
        """A client that does not read its answers is closed."""
        self._count(self._index, Counter.CLOSED_SLOW)
        self.close(connection)

    def timed_out(self, connection: Connection) -> None:
        """A message took too long to arrive: say so if the protocol can, then close."""
        self._count(self._index, Counter.CLOSED_SLOW)
        for event in connection.wire.timed_out():
            self._other_event(connection, event)
        connection.eof = True
        connection.touch()

    def _read(self, connection: Connection, now_ns: int) -> None:
        try:
            data = connection.sock.recv(self._limits.bytes_per_pass)
        except BlockingIOError:
            return
        except OSError:
            self.close(connection)
            return
        if data:
            self._count(self._index, Counter.BYTES_IN, len(data))
            wire = connection.wire
            if not wire.mid_message:
                connection.began_ns = now_ns
            connection.read_ns = now_ns
            wire.receive(data)
            if not self._account(connection, wire.buffered):
                self._count(self._index, Counter.CLOSED_PROTOCOL)
                self.close(connection)
                return
        else:
            connection.eof = True
            connection.wire.receive_eof()
        self.ready.add(connection)

    def _may_take(self, connection: Connection) -> bool:
        """Whether this connection's next call may be taken now."""
        limits, wire = self._limits, connection.wire
        most = limits.http_pipelining if wire.framing == "http" else limits.max_in_flight
        return (
            not connection.paused
            and wire.in_flight < most
            and connection.unsent < limits.unsent_high_water_bytes
        )

    def _exhausted(self, connection: Connection) -> None:
        """Every whole message was taken: wait for more, unless there is no more."""
        wire = connection.wire
        self._account(connection, wire.buffered)
        if wire.mid_message:
            self.watched.add(connection)
        if connection.eof or wire.input_over:
            connection.touch()
        self._set_interest(connection)

    def _account(self, connection: Connection, buffered: int) -> bool:
        """Note how much unfinished input the connection holds; False if that is too much."""
        caller, limits = connection.caller, self._limits
        change = buffered - connection.buffered
        connection.buffered = buffered
        caller.unfinished += change
        self.unfinished += change
        return change <= 0 or (
            buffered <= limits.max_unfinished_of_connection
            and caller.unfinished <= limits.max_unfinished_of_caller
            and self.unfinished <= limits.max_unfinished_of_reader
        )

    def _other_event(self, connection: Connection, event: Event) -> bool:
        """Everything but a message; True if it was the last event."""
        connection.touch()
        if isinstance(event, Send):
            connection.put(event.data)
        elif isinstance(event, Health):
            phase = self._shared.phase.get()
            ok = event.kind == "livez" or phase == Phase.RUNNING
            text = phase.name.lower() if event.kind == "readyz" else "alive"
            connection.put(connection.wire.health_answer(event.exchange, ok, text))
        elif isinstance(event, Close):
            self._count(self._index, Counter.CLOSED_PROTOCOL)
            connection.eof = True
            return True
        return False

    def _flush(self, connection: Connection, now_ns: int) -> bool:
        """False if the client is gone."""
        if not connection.unsent:
            return True
        try:
            sent = connection.flush()
        except OSError:
            return False
        if sent or not connection.stalled:
            connection.sent_ns = now_ns
            self._count(self._index, Counter.BYTES_OUT, sent)
        connection.stalled = bool(connection.unsent)
        if connection.stalled:
            self.watched.add(connection)
        return True

    def _set_interest(self, connection: Connection) -> None:
        """Ask epoll for what this connection waits for; for nothing at all if it may not read."""
        interest = WRITE if connection.unsent else 0
        reading = not (connection.eof or connection.queued or connection.wire.input_over)
        if reading and self._may_take(connection):
            interest |= READ
        if interest == connection.interest:
            return
        if not connection.interest:
            self._epoll.register(connection.fd, interest)
        elif not interest:
            self._epoll.unregister(connection.fd)
        else:
            self._epoll.modify(connection.fd, interest)
        connection.interest = interest
