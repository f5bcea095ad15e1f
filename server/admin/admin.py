"""The admin process: it answers operators, and `faircall stats`, on the daemon's own Unix socket.

One process for all ports, one asyncio loop, no threads, no lock of the segment: whatever is asked
here, no reader waits for it. What can be asked is in `admin_methods`, how it is said in
`admin_session`.

    socket   admin.socket, mode 0600, in a folder of mode 0700; peers: our own user, and root
    http     admin.listen, if there is any: /, /metrics, /livez, /readyz (`http_listener`)
    owner    a lock file beside it (`unix_listener`): a successor removes what a dead admin left
    beat     BEAT_S: store `beat_ns`, look at the phase, sample the rates
    alarms   looked for twice as often while there is traffic (`alarms`)
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
from ..acceptor.listeners import Listener, close_all, open_listeners
from ..acceptor.unix_listener import UnixPath, listen_unix
from ..reader.pair_file import FileUnusable, PairFile
from ..settings.runtime_directory import make_private
from ..supervisor.failures import CannotStart
from .http_access import Access
from .http_listener import HttpListener
from .http_routes import health_routes
from .link import SupervisorLink
from .methods import AdminMethods
from .session import MAX_MESSAGE_BYTES, ROOT, serve_session

if TYPE_CHECKING:
    from ..config import Settings
    from ..port import Port

log = logging.getLogger("faircall.admin")

BEAT_S = 0.5  # two wake-ups a second
BEAT_NS = int((BEAT_S - 0.05) * 1e9)  # every second look is a beat, however exact a sleep is
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
    listeners: list[Listener] = []
    try:
        listeners += open_listeners(settings.admin.listen, BACKLOG)
        admin = Admin(ports, sock, channel)
        admin.listen(listeners, access_of(settings))
        row["status"] = states.Life.READY
        report("ready")
        log.debug("admin ready", {"socket": path.path, "pid": os.getpid()})
        asyncio.run(admin.serve())
    finally:
        close_all(listeners)
        sock.close()
        path.remove()
    return 0


def access_of(settings: Settings) -> Access:
    """Who may ask over HTTP; CannotStart if the file of tokens cannot be used."""
    hosts = [address.host for address in settings.admin.listen if not address.is_unix]
    try:
        file = settings.admin.token_file
        tokens = PairFile(file, secret=True) if file else None
    except FileUnusable as error:
        raise CannotStart(f"admin.token-file: {error}") from None
    return Access([*settings.server.allowed_hosts, *hosts], tokens)


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
        self._http: HttpListener | None = None

    def listen(self, listeners: Sequence[Listener], access: Access) -> None:
        """Serve HTTP there, too, as long as `serve` runs."""
        routes = {**health_routes(self._phase), **self._methods.routes()}
        self._http = HttpListener(listeners, routes, access)

    async def serve(self) -> None:
        server = await asyncio.start_unix_server(
            self._accept, sock=self._sock, limit=MAX_MESSAGE_BYTES
        )
        if self._link:
            self._link.listen()
        if self._http:
            await self._http.serve()
        ended = self._link.ended if self._link else asyncio.Event()
        next_beat_ns = 0
        while self._phase.get() != Phase.STOPPED and not ended.is_set():
            now_ns = time.monotonic_ns()
            if now_ns >= next_beat_ns:
                next_beat_ns = now_ns + BEAT_NS
                self._beat(now_ns)
            next_s = self._methods.alarms.look(now_ns)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(next_s, BEAT_S)):
                    await ended.wait()
        self._methods.alarms.close()
        if self._http:
            self._http.close()
        server.close()  # and `asyncio.run` cancels the sessions

    def _beat(self, now_ns: int) -> None:
        self._row["beat_ns"] = now_ns
        self._log_level.follow()
        self._methods.tick(now_ns)
        if self._http:
            self._methods.metrics.tick()

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
