"""The connections of one reader: reading, taking calls, sending, closing.

    epoll -> read -> ready list -> serve (in turn) -> settle: send, go on or stop reading, close

`touched` collects the connections that something was put into or taken from during a pass; `settle`
looks at each of them once. A connection whose input is `stopped` is read again when it may take
more; one that waits for its turn is not read either, so what it sends waits in the kernel.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

from ...shm.columns import Counter
from ...shm.shared import Shared
from ...shm.states import Phase
from ..settings.trusted_peers import TrustedPeers
from ..wire.connection import Wire
from ..wire.events import Event, Fault, Health, Message, Send
from ..wire.limits import WireLimits
from .admission import Admission
from .authentication import Authentication
from .caller_rules import CallerRules
from .callers import Callers
from .client_limits import ClientLimits
from .connection import Connection
from .forwarded import MalformedForwarding
from .interest import GONE, READ, WRITE, Interest
from .peers import peer_at, peer_of
from .sources import Sources
from .turns import TurnList
from .unfinished import UnfinishedInput

log = logging.getLogger("faircall.reader")

RECEIVE_BYTES = 64 << 10  # by one system call

_BYTES_IN, _BYTES_OUT = int(Counter.BYTES_IN), int(Counter.BYTES_OUT)


class Clients:
    """`dropped(slots)` is told the calls in flight of a connection that is closed."""

    def __init__(
        self,
        shared: Shared,
        counts: memoryview,
        sources: Sources,
        admission: Admission,
        callers: Callers,
        authentication: Authentication,
        trusted: TrustedPeers,
        rules: CallerRules,
        wire_limits: WireLimits,
        limits: ClientLimits,
        dropped: Callable[[set[int]], None],
    ) -> None:
        self._phase, self._counts, self._interest = shared.phase, counts, Interest(sources)
        self._admission, self._callers, self._trusted = admission, callers, trusted
        self._authentication, self._proxies = authentication, rules.proxies
        self._proxy_protocol = rules.proxy_protocol
        self._tcp_limits, self._unix_limits = wire_limits, wire_limits.for_unix_socket()
        self._limits, self._dropped = limits, dropped
        self.by_fd: dict[int, Connection] = {}
        self.ready = TurnList()
        self.touched: set[Connection] = set()
        self.watched: set[Connection] = set()  # those that a time limit may apply to
        self.unfinished = UnfinishedInput(limits)

    def configure(self, limits: ClientLimits) -> None:
        """Go by these from now on; what may be unfinished does not change."""
        self._limits = limits

    def adopt(self, sock: socket.socket, now_ns: int) -> None:
        """A connection from the acceptor becomes this reader's."""
        unix = sock.family == socket.AF_UNIX
        try:
            sock.setblocking(False)
            if not unix:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = peer_of(sock, self._trusted, self._proxies)
        except OSError:  # it is gone already
            sock.close()
            return
        limits = self._unix_limits if unix else self._tcp_limits
        wire = Wire(limits, introduced=self._proxy_protocol and peer.proxy)
        caller = self._callers.get(peer.name, now_ns)
        connection = Connection(sock, wire, peer, caller, self.touched, now_ns)
        connection.plain = self._authentication.is_enough(connection)
        self.by_fd[connection.fd] = connection
        self.watched.add(connection)
        self._interest.ask(connection)
        self._counts[Counter.CONNECTIONS] += 1

    def on_event(self, connection: Connection, event: int, now_ns: int) -> None:
        """What epoll said of a connection."""
        if event & WRITE:
            self.touched.add(connection)
        if event & READ:
            if not connection.queued:
                self._read(connection, now_ns)
        elif event & GONE:
            self.close(connection)

    def serve(self, connection: Connection, now_ns: int) -> int:
        """One turn of a connection: at most a pass's calls and bytes; how many calls it was."""
        wire, limits, take = connection.wire, self._limits, self._admission.take
        calls = size = 0
        room = min(limits.room_of(connection), limits.calls_per_pass)
        while calls < room and size < limits.bytes_per_pass:
            event = wire.next_event()
            if event is None:
                self._exhausted(connection)
                break
            if isinstance(event, Message):
                size += len(event.body)
                try:
                    calls += take(connection, event, now_ns)
                except MalformedForwarding as error:
                    self._malformed(connection, str(error))
                    self.close(connection)
                    return calls + 1
            else:
                calls += 1
                self._put(connection, event)
        else:
            if room > 0:
                self.ready.add(connection)  # more may have arrived: after the others
            else:
                connection.stopped = True
        if calls:
            connection.began_ns = connection.read_ns  # what is left came with the last bytes
        self.touched.add(connection)
        if not self.unfinished.account(connection):
            self._counts[Counter.CLOSED_PROTOCOL] += 1
            self.close(connection)
        return calls

    def settle(self, now_ns: int) -> None:
        """Send what was answered; close what is over; read on where that was stopped."""
        touched = list(self.touched)
        self.touched.clear()
        for connection in touched:
            if connection.closed or (connection.unsent and not self._flush(connection, now_ns)):
                continue
            if connection.input_over and connection.is_over and not connection.lingering:
                self._end(connection, now_ns)
                continue
            if connection.stopped and self._limits.room_of(connection) > 0:
                connection.stopped = False
                connection.read_ns = connection.began_ns = now_ns  # the pause was ours
                self.ready.add(connection)
            self._interest.ask(connection)

    def close(self, connection: Connection) -> None:
        """The connection ends now; its calls in flight are given up."""
        if connection.closed:
            return
        connection.closed = True
        self.ready.remove(connection)
        self.watched.discard(connection)
        self.unfinished.forget(connection)
        del self.by_fd[connection.fd]
        self._interest.forget(connection)
        connection.sock.close()
        if connection.calls:
            self._dropped(connection.calls)

    def give_up(self, connection: Connection) -> None:
        """A client that does not read its answers is closed."""
        self._counts[Counter.CLOSED_SLOW] += 1
        self.close(connection)

    def timed_out(self, connection: Connection) -> None:
        """A message took too long to arrive: say so if the protocol can, then close."""
        self._counts[Counter.CLOSED_SLOW] += 1
        connection.input_over = True
        for event in connection.wire.timed_out():
            self._put(connection, event)
        self.unfinished.account(connection)
        self.touched.add(connection)

    def part(self, now_ns: int) -> None:
        """The server ends: nothing more is said to any client, but what is unsent."""
        for connection in list(self.by_fd.values()):
            connection.finish()
            if not connection.unsent and not connection.lingering:
                self._end(connection, now_ns)

    def _read(self, connection: Connection, now_ns: int) -> None:
        try:
            data = connection.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close(connection)
            return
        if connection.lingering:
            if not data:
                self.close(connection)
            return
        wire = connection.wire
        if data:
            self._counts[_BYTES_IN] += len(data)
            if not wire.mid_message:
                connection.began_ns = now_ns
            connection.read_ns = now_ns
            wire.receive(data)
            if wire.source is not None:
                self._introduce(connection, now_ns)
        else:
            wire.receive_eof()
            connection.peer_ended = connection.input_over = True
        self.ready.add(connection)

    def _exhausted(self, connection: Connection) -> None:
        """Every whole message was taken: wait for more, unless there is no more."""
        wire = connection.wire
        if wire.mid_message:
            self.watched.add(connection)
        if wire.input_over:
            connection.input_over = True

    def _put(self, connection: Connection, event: Event) -> None:
        """Everything but a message: what the protocol itself wants said."""
        if isinstance(event, Send):
            connection.put(event.data)
            if connection.wire.input_over and not connection.input_over:
                self._counts[Counter.CLOSED_PROTOCOL] += 1
                connection.input_over = True
        elif isinstance(event, Health):
            phase = self._phase.get()
            ok = event.kind == "livez" or phase == Phase.RUNNING
            text = phase.name.lower() if event.kind == "readyz" else "alive"
            connection.put(connection.wire.health_answer(event.exchange, ok, text))
        elif isinstance(event, Fault):
            self._malformed(connection, event.detail)
            connection.input_over = True

    def _introduce(self, connection: Connection, now_ns: int) -> None:
        """A trusted proxy has said for whom this connection is; "" is the proxy itself."""
        source, connection.wire.source = connection.wire.source, None
        if not connection.wire.buffered:  # the proxy's bytes are not the client's first ones
            connection.read_ns = 0
        if source:
            peer = peer_at(source, self._trusted, self._proxies)
            connection.introduce(peer, self._callers.get(peer.name, now_ns))
            connection.plain = self._authentication.is_enough(connection)

    def _malformed(self, connection: Connection, error: str) -> None:
        """A proxy that we are to believe sends what cannot be read."""
        self._counts[Counter.CLOSED_PROTOCOL] += 1
        log.warning("proxy header malformed", {"peer": connection.peer.name, "error": error})

    def _flush(self, connection: Connection, now_ns: int) -> bool:
        """False if the connection was closed: the client is gone, or takes nothing."""
        try:
            sent = connection.flush()
        except OSError:
            self.close(connection)
            return False
        if sent or not connection.stalled:
            connection.sent_ns = now_ns
            self._counts[_BYTES_OUT] += sent
        connection.stalled = connection.unsent > 0
        if connection.stalled:
            self.watched.add(connection)
            if connection.unsent > self._limits.max_unsent_bytes:
                self.give_up(connection)
                return False
        return True

    def _end(self, connection: Connection, now_ns: int) -> None:
        """Everything was said. A client that may still be sending is waited for a little.

        To close with input unread would reset the connection, and the reset may overtake what we
        said last.
        """
        if connection.peer_ended:
            self.close(connection)
            return
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close(connection)
            return
        connection.lingering = True
        connection.began_ns = now_ns
        self.watched.add(connection)
        self._interest.ask(connection)
