"""The program that embeds the daemon: how it is watched, and the connections that it hands over."""

from __future__ import annotations

import socket
from collections.abc import Callable

from ..port import Port
from .children import Child
from .roster import Roster
from .sources import Sources


class Host:
    """Until a descriptor is watched there is none; `on_gone` is called once it needs no server."""

    def __init__(
        self, sources: Sources, roster: Roster, port: Port, on_gone: Callable[[], None]
    ) -> None:
        self._sources, self._roster, self._port, self._on_gone = sources, roster, port, on_gone
        self._fds: list[int] = []

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call `call` whenever `fd`, by which the host is known, is readable."""
        self._fds.append(fd)
        self._sources.add(fd, call)

    def gone(self) -> None:
        """Nobody needs this server any more."""
        for fd in self._fds:
            self._sources.remove(fd)
        self._fds.clear()
        self._on_gone()

    def hand_over(self, connection: socket.socket) -> None:
        """A connection for the reader with the fewest, which stays open here; if none has room it
        ends with its last descriptor."""
        handoffs = self._port.handoffs

        def count(child: Child) -> int:
            return int(child.row["connections"]) + handoffs[child.number].pending()

        readers = [child for child, _ in self._roster.living("reader")]
        for child in sorted(readers, key=count):
            if handoffs[child.number].send(connection):
                return
