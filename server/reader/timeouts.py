"""Connections that take too long: to send a first byte, to end a message, to read answers."""

from __future__ import annotations

from dataclasses import dataclass

from ..acceptor.handoff import unread_bytes
from .clients import Clients
from .connection import Connection

CHECK_NS = 500_000_000  # how often the watched connections are looked at
LINGER_NS = 2_000_000_000  # for the client's end, after ours
NEVER_NS = 1 << 63
LEAST_BYTES_PER_S = 16 << 10  # of a message in arrival, on top of the time for its head


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """All in ns; 0: no limit."""

    first_byte_ns: int = 60_000_000_000
    header_ns: int = 10_000_000_000
    message_ns: int = 10_000_000_000
    idle_ns: int = 0
    send_ns: int = 30_000_000_000


class ConnectionTimeouts:
    """Looks only at `clients.watched`: an idle connection costs nothing, unless it may not be."""

    def __init__(self, clients: Clients, limits: Timeouts) -> None:
        self._clients, self._limits = clients, limits
        self.next_ns = NEVER_NS  # when `check` wants to be called

    def configure(self, limits: Timeouts) -> None:
        """Go by these from now on."""
        self._limits, self.next_ns = limits, NEVER_NS

    def check(self, now_ns: int) -> None:
        """Close what is over its time; at most every CHECK_NS."""
        if now_ns >= self.next_ns:
            watched = self._watched()
            late = now_ns - self.next_ns > CHECK_NS
            for connection in watched:
                if late:
                    _forgive(connection, now_ns)
                self._check(connection, now_ns)
            self.next_ns = NEVER_NS
        if self.next_ns == NEVER_NS and (self._clients.watched or self._limits.idle_ns):
            self.next_ns = now_ns + CHECK_NS

    def _watched(self) -> list[Connection]:
        clients = self._clients
        return list(clients.by_fd.values() if self._limits.idle_ns else clients.watched)

    def _check(self, connection: Connection, now_ns: int) -> None:
        clients, limits = self._clients, self._limits
        if connection.lingering:
            if now_ns - connection.began_ns > LINGER_NS:
                clients.close(connection)
        elif connection.stalled:
            _note_progress(connection, now_ns)
            if 0 < limits.send_ns < now_ns - connection.sent_ns:
                clients.give_up(connection)
        elif connection.stopped or connection.queued:
            pass  # it is we who do not read
        elif self._waits_too_long(connection, now_ns):
            clients.timed_out(connection)
        elif connection.read_ns and not connection.wire.mid_message:
            clients.watched.discard(connection)

    def _waits_too_long(self, connection: Connection, now_ns: int) -> bool:
        limits, wire = self._limits, connection.wire
        age_ns = now_ns - connection.began_ns
        if not connection.read_ns:
            return 0 < limits.first_byte_ns < age_ns
        if wire.mid_message:
            allowed_ns = limits.header_ns + wire.buffered * 1_000_000_000 // LEAST_BYTES_PER_S
            return now_ns - connection.read_ns > limits.message_ns or age_ns > allowed_ns
        busy = wire.in_flight or connection.unsent
        last_ns = max(connection.read_ns, connection.sent_ns)
        return not busy and 0 < limits.idle_ns < now_ns - last_ns


def _note_progress(connection: Connection, now_ns: int) -> None:
    """The client took something: it may take much of it until the socket has room again."""
    unread = unread_bytes(connection.sock)
    if unread != connection.in_kernel:
        connection.in_kernel, connection.sent_ns = unread, now_ns


def _forgive(connection: Connection, now_ns: int) -> None:
    """This process was stopped for a while: what the client sent meanwhile was not read."""
    connection.began_ns = connection.sent_ns = now_ns
    if connection.read_ns:
        connection.read_ns = now_ns
