"""The connections of one reader: reading, taking calls, sending, closing.

    epoll -> read -> ready list -> serve (in turn) -> settle: send, go on or stop reading, close

`touched` collects the connections that something was put into or taken from during a pass; `settle`
looks at each of them once. A connection whose input is `stopped` is read again when it may take
more; one that waits for its turn is not read either, so what it sends waits in the kernel.
"""

from __future__ import annotations

import socket

from ...shm.columns import Counter
from .adoption import Adoption
from .client_limits import ClientLimits
from .connection import Connection
from .connections import Connections
from .intake import Intake
from .interest import GONE, READ, WRITE

_BYTES_OUT = int(Counter.BYTES_OUT)


class Clients:
    """One reader's; `connections` are theirs."""

    def __init__(
        self,
        counts: memoryview,
        connections: Connections,
        adoption: Adoption,
        intake: Intake,
        limits: ClientLimits,
    ) -> None:
        self._counts, self._limits = counts, limits
        self._connections, self._adoption, self._intake = connections, adoption, intake
        self.by_fd, self.ready = connections.by_fd, connections.ready
        self.touched, self.watched = connections.touched, connections.watched
        self.unfinished, self._interest = connections.unfinished, connections.interest
        self.close, self.serve, self.read = connections.close, intake.serve, intake.read

    def configure(self, limits: ClientLimits) -> None:
        """Go by these from now on; what may be unfinished does not change."""
        self._limits = self._intake.limits = limits

    def adopt(self, sock: socket.socket, now_ns: int) -> None:
        """A connection from the acceptor becomes this reader's."""
        connection = self._adoption.connection_of(sock, self.touched, now_ns)
        if connection is not None:
            self._connections.add(connection)
            self._counts[Counter.CONNECTIONS] += 1

    def on_event(self, connection: Connection, event: int, now_ns: int) -> None:
        """What epoll said of a connection."""
        if event & WRITE:
            self.touched.add(connection)
        if event & READ:
            if not connection.queued:
                self.read(connection, now_ns)
        elif event & GONE:
            self.close(connection)

    def settle(self, now_ns: int) -> None:
        """Send what was answered; close what is over; read on where that was stopped."""
        touched, ask = list(self.touched), self._interest.ask
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
            ask(connection)

    def give_up(self, connection: Connection) -> None:
        """A client that does not read its answers is closed."""
        self._counts[Counter.CLOSED_SLOW] += 1
        self.close(connection)

    def timed_out(self, connection: Connection) -> None:
        """A message took too long to arrive: say so if the protocol can, then close."""
        self._counts[Counter.CLOSED_SLOW] += 1
        connection.input_over = True
        for event in connection.wire.timed_out():
            self._intake.put(connection, event)
        self.unfinished.account(connection)
        self.touched.add(connection)

    def part(self, now_ns: int) -> None:
        """The server ends: nothing more is said to any client, but what is unsent."""
        for connection in list(self.by_fd.values()):
            connection.finish()
            if not connection.unsent and not connection.lingering:
                self._end(connection, now_ns)

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
        if not connection.unsent:
            connection.stalled = False
            return True
        connection.stalled = True
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
