"""Connections that take too long: to send a first byte, to end a message, to read answers."""

from __future__ import annotations

from dataclasses import dataclass

from .clients import Clients
from .connection import Connection

CHECK_NS = 500_000_000  # how often the watched connections are looked at
NEVER_NS = 1 << 63
LEAST_BYTES_PER_S = 16 << 10  # of a message in arrival, on top of the time for its head


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """All in ns; 0: no limit."""

    first_byte_ns: int = 10_000_000_000
    header_ns: int = 10_000_000_000
    message_ns: int = 10_000_000_000
    idle_ns: int = 0
    send_ns: int = 30_000_000_000


class ConnectionTimeouts:
    """Looks only at `clients.watched`: an idle connection costs nothing, unless it may not be."""

    def __init__(self, clients: Clients, limits: Timeouts) -> None:
        self._clients, self._limits = clients, limits
        self.next_ns = NEVER_NS  # when `check` wants to be called

    def check(self, now_ns: int) -> None:
        """Close what is over its time; at most every CHECK_NS."""
        if self.next_ns == NEVER_NS and (self._clients.watched or self._limits.idle_ns):
            self.next_ns = now_ns + CHECK_NS
        if now_ns < self.next_ns:
            return
        self.next_ns = NEVER_NS
        watched = self._clients.by_fd.values() if self._limits.idle_ns else self._clients.watched
        for connection in list(watched):
            self._check(connection, now_ns)
        if self._clients.watched or self._limits.idle_ns:
            self.next_ns = now_ns + CHECK_NS

    def _check(self, connection: Connection, now_ns: int) -> None:
        limits = self._limits
        if connection.stalled:
            if limits.send_ns and now_ns - connection.sent_ns > limits.send_ns:
                self._clients.give_up(connection)
        elif self._waits_too_long(connection, now_ns):
            self._clients.timed_out(connection)
        elif connection.read_ns and not connection.wire.mid_message:
            self._clients.watched.discard(connection)

    def _waits_too_long(self, connection: Connection, now_ns: int) -> bool:
        limits, wire = self._limits, connection.wire
        if not connection.read_ns:
            return (
                bool(limits.first_byte_ns) and now_ns - connection.began_ns > limits.first_byte_ns
            )
        if wire.mid_message:
            silent_ns, age_ns = now_ns - connection.read_ns, now_ns - connection.began_ns
            allowed_ns = limits.header_ns + wire.buffered * 1_000_000_000 // LEAST_BYTES_PER_S
            return silent_ns > limits.message_ns or age_ns > allowed_ns
        busy = connection.calls or wire.in_flight or connection.unsent
        last_ns = max(connection.read_ns, connection.sent_ns)
        return bool(limits.idle_ns) and not busy and now_ns - last_ns > limits.idle_ns
