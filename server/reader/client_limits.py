"""What a reader grants each of its connections."""

from __future__ import annotations

from dataclasses import dataclass

from .connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Calls and bytes of one turn; calls in flight; answers unsent; input not taken yet."""

    calls_per_pass: int = 16
    bytes_per_pass: int = 64 << 10
    max_in_flight: int = 1024
    http_pipelining: int = 64
    unsent_high_water_bytes: int = 1 << 20
    max_unsent_bytes: int = 64 << 20
    max_unfinished_of_connection: int = (16 << 20) + (64 << 10)
    max_unfinished_of_caller: int = 64 << 20
    max_unfinished_of_reader: int = 256 << 20

    def room_of(self, connection: Connection) -> int:
        """How many more calls `connection` may have in flight now; none if not above 0."""
        unsent = connection.unsent
        if connection.paused or unsent >= self.unsent_high_water_bytes:
            return 0
        wire, room = connection.wire, self.max_in_flight - len(connection.calls)
        if wire.framing != "http":
            return room
        if unsent + wire.held >= self.unsent_high_water_bytes:
            return 0
        return min(room, self.http_pipelining - wire.in_flight)

    def allows_unfinished(self, connection: Connection, of_reader: int) -> bool:
        """Whether so much input, in bytes, may wait: of one connection, its caller, the reader."""
        return (
            connection.buffered <= self.max_unfinished_of_connection
            and connection.caller.unfinished <= self.max_unfinished_of_caller
            and of_reader <= self.max_unfinished_of_reader
        )
