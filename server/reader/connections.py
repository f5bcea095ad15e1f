"""The connections of one reader: which there are, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Callable

from .client_limits import ClientLimits
from .connection import Connection
from .interest import Interest
from .sources import Sources
from .turns import TurnList
from .unfinished import UnfinishedInput


class Connections:
    """`ready` have calls that were not taken yet, `touched` are looked at when the pass ends, and
    a time limit may apply to `watched`. `dropped(slots)` is told the calls in flight of a
    connection that is closed.
    """

    def __init__(
        self, sources: Sources, limits: ClientLimits, dropped: Callable[[set[int]], None]
    ) -> None:
        self.by_fd: dict[int, Connection] = {}
        self.ready = TurnList()
        self.touched: set[Connection] = set()
        self.watched: set[Connection] = set()
        self.unfinished = UnfinishedInput(limits)  # what may be unfinished does not change
        self.interest = Interest(sources)
        self._dropped = dropped

    def add(self, connection: Connection) -> None:
        """A new one: its first byte is waited for."""
        self.by_fd[connection.fd] = connection
        self.watched.add(connection)
        self.interest.ask(connection)

    def close(self, connection: Connection) -> None:
        """The connection ends now; its calls in flight are given up."""
        if connection.closed:
            return
        connection.closed = True
        self.ready.remove(connection)
        self.watched.discard(connection)
        self.unfinished.forget(connection)
        del self.by_fd[connection.fd]
        self.interest.forget(connection)
        connection.sock.close()
        if connection.calls:
            self._dropped(connection.calls)
