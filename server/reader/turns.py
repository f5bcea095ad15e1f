"""The ready list of a reader: connections with unread calls, served by caller in turn.

A reader must not itself be a queue in order of arrival: a caller with a thousand connections has
one turn for each turn of a caller with one.
"""

from __future__ import annotations

from collections import deque

from .callers import Caller
from .connection import Connection


class TurnList:
    """Callers in turn; each caller's connections in turn."""

    def __init__(self) -> None:
        self.callers: deque[Caller] = deque()  # those of which a connection waits

    def __bool__(self) -> bool:
        return bool(self.callers)

    def add(self, connection: Connection) -> None:
        """`connection` waits for its caller's turn; nothing happens if it does already."""
        if connection.queued:
            return
        connection.queued = True
        caller = connection.caller
        if not caller.ready:
            self.callers.append(caller)
        caller.ready.append(connection)

    def next(self) -> Connection:
        """Take the connection whose turn it is; IndexError if none waits."""
        callers = self.callers
        ready = callers[0].ready
        connection = ready.popleft()
        if not ready:
            callers.popleft()
        elif len(callers) > 1:
            callers.rotate(-1)
        connection.queued = False
        return connection

    def remove(self, connection: Connection) -> None:
        """`connection` is closed: it leaves its place."""
        if connection.queued:
            connection.queued = False
            connection.caller.ready.remove(connection)
            if not connection.caller.ready:
                self.callers.remove(connection.caller)
