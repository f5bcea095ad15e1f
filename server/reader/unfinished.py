"""How much input the connections of a reader hold after their turn: parts of messages.

What waits for its turn is not counted: no more than one read of each connection does.
"""

from __future__ import annotations

from .client_limits import ClientLimits
from .connection import Connection


class UnfinishedInput:
    """`held` bytes in all; a caller's are noted with the caller, a connection's with it."""

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self.held = 0

    def account(self, connection: Connection) -> bool:
        """Note how much `connection` holds now; False if it has grown too large."""
        buffered = connection.wire.current.buffered
        if buffered == connection.buffered:
            return True
        change = self._note(connection, buffered)
        return change <= 0 or self._limits.allows_unfinished(connection, self.held)

    def forget(self, connection: Connection) -> None:
        """It is closed."""
        self._note(connection, 0)

    def _note(self, connection: Connection, buffered: int) -> int:
        change = buffered - connection.buffered
        connection.buffered = buffered
        connection.caller.unfinished += change
        self.held += change
        return change
