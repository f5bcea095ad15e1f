"""The acceptor process of one port: each connection goes to the reader with the fewest.

That counts what a reader has adopted (its own word, `connections`) and what was sent to it and is
still on its way (the kernel's count, `handoff`): both are right whoever dies when. Only readers
that are ready and have room get any; while there is none, connections wait in the kernel's backlog.
The acceptor's own copy is closed at once: a reader's death has to close its connections.

Told to end, it first takes what the backlog holds: those clients have connected.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...shm import states
from ...shm.columns import Counter
from ...workers.log_level import LogLevel

if TYPE_CHECKING:
    from ..port import Port

log = logging.getLogger("faircall.acceptor")

BEAT_MS = 1000  # longest sleep
BREATH_MS = 20  # pause when there is no reader with room, or no descriptor
ACCEPT_AT_ONCE = 64  # connections of one listener, before the next listener's turn
FULL_BACKLOG = 16  # times as many, at the end
COMPLAIN_EVERY_NS = 10_000_000_000
# What accept says of a connection that is gone again, or of its network: not of us.
_GONE = frozenset(
    {errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENOPROTOOPT, errno.EOPNOTSUPP}
    | {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENONET}
)


class Acceptor:
    """`do_work` waits for connections and hands them over; `run` repeats it until told to end."""

    def __init__(self, port: Port, channel: socket.socket) -> None:
        shared, settings = port.shared, port.settings
        self._row = shared.row("acceptor")
        self._columns = shared.columns
        self._handoffs = port.handoffs
        self._readers = [shared.row("reader", number) for number in range(len(port.handoffs))]
        self._most = settings.server.max_connections
        self._most_pending = settings.server.pending_connections
        self._listeners = {entry.socket.fileno(): entry.socket for entry in port.listeners}
        self._channel = channel
        self._poll, self._pause = select.poll(), select.poll()
        self._poll.register(channel, select.POLLIN)
        self._pause.register(channel, select.POLLIN)
        for fd in self._listeners:
            self._poll.register(fd, select.POLLIN)
        self._log_level = LogLevel(shared)
        self._breathes = False
        self._complained_ns: dict[str, int] = {}

    def run(self) -> None:
        """Until the channel ends."""
        while self.do_work():
            pass
        self.empty_backlog()

    def do_work(self) -> bool:
        """One wait and what it brought; False when the supervisor has said the last word."""
        events = self._wait()
        self._row["beat_ns"] = time.monotonic_ns()
        self._log_level.follow()
        ready = [fd for fd, _ in events]
        if self._channel.fileno() in ready:
            return False
        for fd in ready:
            self._accept(self._listeners[fd])
        return True

    def empty_backlog(self) -> None:
        """Take what has connected before the end, as far as readers have room."""
        for listener in self._listeners.values():
            for _ in range(FULL_BACKLOG):
                if not self._accept(listener):
                    break

    def _wait(self) -> list[tuple[int, int]]:
        if not self._breathes:
            return self._poll.poll(BEAT_MS)
        self._breathes = False
        return self._pause.poll(BREATH_MS)

    def _accept(self, listener: socket.socket) -> int:
        """Accept some of what waits, and hand it over; how many."""
        for count in range(ACCEPT_AT_ONCE):
            reader = self._fewest()  # before anything leaves the backlog
            if reader < 0:
                self._breathes = True
                return count
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return count
            except OSError as error:
                if error.errno in _GONE:
                    continue
                self._breathe("cannot accept", error)  # EMFILE, ENFILE, ENOBUFS, ENOMEM
                return count
            with connection:
                self._hand_over(connection, reader)
        return ACCEPT_AT_ONCE

    def _hand_over(self, connection: socket.socket, reader: int) -> None:
        """Send it; one that is too many, or cannot be sent, is closed and counted."""
        if self._most and self._total() >= self._most:
            self._refuse("too many connections", {"max_connections": self._most})
            return
        try:
            sent = self._handoffs[reader].send(connection)
        except OSError as error:
            self._breathe("cannot hand over", error)
            sent = False
        if sent:
            self._readers[reader]["handed"] += 1
        else:
            self._refuse("connection not taken", {"reader": reader})

    def _fewest(self) -> int:
        """The reader with the fewest connections of those that are ready and have room; or -1."""
        chosen, fewest = -1, 0
        for number, (row, handoff) in enumerate(zip(self._readers, self._handoffs, strict=True)):
            pending = handoff.pending()
            if row["status"] != states.Life.READY or pending >= self._most_pending:
                continue
            connections = row["connections"] + pending
            if chosen < 0 or connections < fewest:
                chosen, fewest = number, connections
        return chosen

    def _total(self) -> int:
        adopted = sum(row["connections"] for row in self._readers)
        return adopted + sum(handoff.pending() for handoff in self._handoffs)

    def _refuse(self, why: str, fields: dict[str, object]) -> None:
        self._columns.add(self._row.index, Counter.REFUSED_CONNECTIONS)
        self._complain(why, fields)

    def _breathe(self, what: str, error: Exception) -> None:
        """Pause before the next try: what is short does not come back by asking again at once."""
        self._breathes = True
        self._complain(what, {"error": str(error)})

    def _complain(self, event: str, fields: dict[str, object]) -> None:
        """A warning, the same at most every 10 s."""
        now_ns = time.monotonic_ns()
        if now_ns - self._complained_ns.get(event, -COMPLAIN_EVERY_NS) >= COMPLAIN_EVERY_NS:
            self._complained_ns[event] = now_ns
            log.warning(event, fields)


def run_acceptor(port: Port, channel: socket.socket, report: Callable[[str], None]) -> int:
    """The life of an acceptor process, after the fork: its exit status."""
    row = port.shared.row("acceptor")
    row.enter()
    acceptor = Acceptor(port, channel)
    row["status"] = states.Life.READY
    report("ready")
    log.debug("acceptor ready", {"port": port.number})
    acceptor.run()
    return 0
