"""The program that embeds the daemon: how it is watched, and the connections that it hands over."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from ..port import Port
from .children import Child
from .roster import Roster
from .sources import Sources


class Host:
    """Until a descriptor is watched there is none; `on_gone` is called once it needs no server, and
    `are_replaced` tells whether readers that die are."""

    def __init__(
        self,
        sources: Sources,
        roster: Roster,
        port: Port,
        on_gone: Callable[[], None],
        are_replaced: Callable[[], bool],
    ) -> None:
        self._sources, self._roster, self._port = sources, roster, port
        self._on_gone, self._are_replaced = on_gone, are_replaced
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
        for child in sorted(self._readers(), key=self._connections):
            with contextlib.suppress(OSError):  # as many descriptors are under way as may be
                if self._port.handoffs[child.number].send(connection):
                    return

    def _readers(self) -> list[Child]:
        """One that is being replaced, if there is no other: what its pair holds is for its
        successor."""
        ours = [c for c in self._roster.children if c.role == "reader" and c.port is self._port]
        living = [child for child in ours if child.process is not None]
        return living or (ours if self._are_replaced() else [])

    def _connections(self, child: Child) -> int:
        return int(child.row["connections"]) + self._port.handoffs[child.number].pending()
