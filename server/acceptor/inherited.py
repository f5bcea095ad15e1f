"""Listening sockets that whoever started the daemon has opened: systemd's socket activation.

LISTEN_FDS sockets begin at descriptor 3, for the process LISTEN_PID; LISTEN_FDNAMES names them. An
address of the configuration that one of them is bound to is taken from it, instead of being bound;
`systemd:NAME` and `fd://NUMBER` take one whatever it is bound to. What is taken is never unlinked:
it is systemd's, keeps what connects while the daemon restarts, and outlives it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field

from ..settings.bind_address import BindAddress
from ..supervisor.failures import CannotStart

FIRST = 3  # SD_LISTEN_FDS_START


@dataclass(slots=True)
class Inherited:
    """`named` are (name, socket) of those that nobody has taken yet."""

    named: list[tuple[str, socket.socket]] = field(default_factory=list)

    @classmethod
    def of(cls, environ: MutableMapping[str, str], pid: int) -> Inherited:
        """As the environment says, which is cleared of it. CannotStart if they are no sockets."""
        owner, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
        names = environ.pop("LISTEN_FDNAMES", "").split(":")
        environ.pop("LISTEN_PIDFDID", None)
        if owner != str(pid) or not count.isdigit():
            return cls()
        found = cls()
        for number in range(int(count)):
            name = names[number] if number < len(names) else ""
            found.named.append((name, _listening(FIRST + number, "LISTEN_FDS")))
        return found

    def take(self, address: BindAddress) -> socket.socket | None:
        """That of a Unix socket, or of `systemd:NAME` or `fd://NUMBER` (CannotStart if it is not
        there); None: nobody opened it."""
        if not address.inherited:
            return self._first(lambda name, sock: address.is_unix and _path(sock) == address.path)
        if address.inherited.isdigit():
            number = int(address.inherited)
            return self._first(lambda name, sock: sock.fileno() == number) or _listening(
                number, str(address)
            )
        sock = self._first(lambda name, sock: name == address.inherited)
        if sock is None:
            known = ", ".join(name for name, _ in self.named) or "none"
            raise CannotStart(f"{address}: systemd has passed no socket of that name ({known})")
        return sock

    def take_tcp(self, family: int, place: tuple[object, ...]) -> socket.socket | None:
        """One that is bound to the address `place`, or to all addresses if that is 0.0.0.0."""
        return self._first(lambda name, sock: _is_at(sock, family, place))

    def unused(self) -> list[str]:
        """Names of those that no address has taken; they are closed."""
        names = [name or str(sock.fileno()) for name, sock in self.named]
        for _, sock in self.named:
            sock.close()
        self.named.clear()
        return names

    def _first(self, wanted: Callable[[str, socket.socket], bool]) -> socket.socket | None:
        for index, (name, sock) in enumerate(self.named):
            if wanted(name, sock):
                del self.named[index]
                return sock
        return None


def _listening(fd: int, what: str) -> socket.socket:
    """The listening stream socket `fd`, ours alone from now on; CannotStart if it is none."""
    try:
        sock = socket.socket(fileno=fd)
        os.set_inheritable(fd, False)
        kind = sock.type & ~(socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise CannotStart(f"{what}: descriptor {fd}: {error.strerror}") from None
    families = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
    if kind != socket.SOCK_STREAM or not listens or sock.family not in families:
        sock.detach()
        raise CannotStart(f"{what}: descriptor {fd} is no listening stream socket (Accept=no)")
    sock.setblocking(False)
    return sock


def _path(sock: socket.socket) -> str:
    return str(sock.getsockname()) if sock.family == socket.AF_UNIX else ""


def _is_at(sock: socket.socket, family: int, place: tuple[object, ...]) -> bool:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    host, port = sock.getsockname()[:2]
    if port != place[1] or not port:
        return False
    if sock.family == family:
        return bool(host == place[0])
    both = False
    with contextlib.suppress(OSError):
        both = not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return bool(host == "::" and both and place[0] == "0.0.0.0")
