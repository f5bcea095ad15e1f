"""The admin process: it answers operators, and `faircall stats`, on the daemon's own Unix socket.

One process for all ports, one asyncio loop, no threads, no lock of the segment: whatever is asked
here, no reader waits for it. What can be asked is in `admin_methods`, how it is said in
`admin_session`.

    socket   admin.socket, mode 0600, in a folder of mode 0700; peers: our own user, and root
    owner    a lock file beside it (`unix_listener`): a successor removes what a dead admin left
    beat     BEAT_S: store `beat_ns`, look at the phase, sample the rates
    end      when the supervisor ends the line, or the phase is STOPPED; with the supervisor, if
             that dies (`child`)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...shm import states
from ...shm.states import Phase
from ...workers.log_level import LogLevel
from ..acceptor.unix_listener import UnixPath, listen_unix
from ..settings.runtime_directory import make_private
from ..supervisor.failures import CannotStart
from .link import SupervisorLink
from .methods import AdminMethods
from .session import MAX_MESSAGE_BYTES, ROOT, serve_session

if TYPE_CHECKING:
    from ..config import Settings
    from ..port import Port

log = logging.getLogger("faircall.admin")

BEAT_S = 0.5  # two wake-ups a second
BACKLOG = 16
MAX_SESSIONS = 64
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
NICENESS = 5  # on a machine without a free core readers and handlers come first


def run_admin(
    ports: Sequence[Port],
    settings: Settings,
    report: Callable[[str], None],
    channel: socket.socket | None = None,
) -> int:
    """The life of the admin process, after the fork: its exit status. CannotStart."""
    os.nice(NICENESS)
    row = ports[0].shared.row("admin")
    row.enter()
    sock, path = open_admin_socket(settings.admin.socket)
    try:
        admin = Admin(ports, sock, channel)
        row["status"] = states.Life.READY
        report("ready")
        log.debug("admin ready", {"socket": path.path, "pid": os.getpid()})
        asyncio.run(admin.serve())
    finally:
        sock.close()
        path.remove()
    return 0


def open_admin_socket(path: str) -> tuple[socket.socket, UnixPath]:
    """Listen at `path`; CannotStart if its folder is open to others, or the path another's."""
    place = Path(path).absolute()
    try:
        _make_folder(place.parent)
    except OSError as error:
        raise CannotStart(f"admin.socket: {error}") from None
    return listen_unix(str(place), BACKLOG)


def _make_folder(folder: Path) -> None:
    """Make `folder` for us alone; in one that is there nobody else may put things in our place.

    PermissionError for one that belongs to another user, or that others may write (but /tmp, which
    is sticky, will do).
    """
    if not folder.exists():
        make_private(folder)
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), ROOT):
        raise PermissionError(f"{folder} belongs to uid {found.st_uid}, not to this daemon")
    if found.st_mode & WRITABLE_BY_OTHERS and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(f"others may write in {folder}: chmod 700 {folder}")


class Admin:
    """`serve` runs until the server stops. Without a `channel` settings cannot be read again."""

    def __init__(
        self, ports: Sequence[Port], sock: socket.socket, channel: socket.socket | None = None
    ) -> None:
        self._ports = ports
        self._phase = ports[0].shared.phase
        self._row = ports[0].shared.row("admin")
        self._log_level = LogLevel(ports[0].shared)
        self._link = SupervisorLink(channel, self._adopt) if channel else None
        line = self._link
        self._methods = AdminMethods(ports, *((line.refresh, line.order) if line else ()))
        self._sock = sock
        self._sessions: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        server = await asyncio.start_unix_server(
            self._accept, sock=self._sock, limit=MAX_MESSAGE_BYTES
        )
        if self._link:
            self._link.listen()
        ended = self._link.ended if self._link else asyncio.Event()
        while self._phase.get() != Phase.STOPPED and not ended.is_set():
            now_ns = time.monotonic_ns()
            self._row["beat_ns"] = now_ns
            self._log_level.follow()
            self._methods.tick(now_ns)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await ended.wait()
        server.close()  # and `asyncio.run` cancels the sessions

    def _adopt(self, settings: Settings) -> None:
        for port in self._ports:
            port.refresh(settings)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection; one more than MAX_SESSIONS is closed at once."""
        if len(self._sessions) >= MAX_SESSIONS:
            log.warning("too many admin clients", {"sessions": len(self._sessions)})
            writer.close()
            return
        session = asyncio.create_task(serve_session(self._methods.methods, reader, writer))
        self._sessions.add(session)
        session.add_done_callback(self._sessions.discard)
