"""Listening sockets, made by the supervisor before its first child: TCP and Unix.

They listen from the start, so that a second daemon on the same address is refused at once; who
connects before the server is ready waits in the backlog. The supervisor keeps them open: they
outlive every acceptor.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from ..settings.bind_address import BindAddress
from ..supervisor.failures import CannotStart
from .unix_listener import UnixPath, listen_unix

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # as ::1 where IPv6 is off


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening, non-blocking socket; `path` of a Unix one has to be removed at the end."""

    socket: socket.socket
    path: UnixPath | None = None

    @property
    def address(self) -> str:
        """Where it really listens: with the port that the kernel chose for port 0."""
        if self.path is not None:
            return f"unix:{self.path.path}"
        host, port = self.socket.getsockname()[:2]
        return str(BindAddress(port, host=host, port=port))

    def close(self) -> None:
        """Stop listening and leave nothing behind; a second time changes nothing."""
        if self.socket.fileno() < 0:
            return
        self.socket.close()
        if self.path is not None:
            self.path.remove()


def open_listeners(addresses: Iterable[BindAddress], backlog: int) -> list[Listener]:
    """A listener for each address, or several where a name has several; CannotStart."""
    opened: list[Listener] = []
    addresses = list(addresses)
    try:
        for address in addresses:
            if address.is_unix:
                opened.append(Listener(*listen_unix(address.path, backlog)))
            else:
                opened.extend(_listen_tcp(address, addresses, backlog))
    except BaseException:
        close_all(opened)
        raise
    return opened


def close_all(listeners: Iterable[Listener]) -> None:
    for listener in listeners:
        listener.close()


def _listen_tcp(address: BindAddress, others: list[BindAddress], backlog: int) -> list[Listener]:
    """One socket per IP address of the host; with port 0 one only: each would get another port."""
    opened: list[Listener] = []
    absent: OSError | None = None
    alone = not any(o.port == address.port and o.host == "0.0.0.0" for o in others)
    for family, place in _resolve(address):
        dual_stack = family == socket.AF_INET6 and alone
        try:
            opened.append(Listener(_bind(family, place, dual_stack, backlog)))
        except OSError as error:
            if error.errno in _NOT_HERE:
                absent = error
                continue
            close_all(opened)
            raise _refusal(address, error) from None
        if address.port == 0:
            break
    if not opened and absent is not None:
        raise _refusal(address, absent)
    return opened


def _resolve(address: BindAddress) -> list[tuple[int, tuple[object, ...]]]:
    """(family, socket address) of each address of the host, each once."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise CannotStart(f"{address}: {error.strerror}") from None
    return list(dict.fromkeys((family, place) for family, _, _, _, place in found))


def _bind(family: int, place: tuple[object, ...], dual_stack: bool, backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual_stack)
        sock.bind(place)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _refusal(address: BindAddress, error: OSError) -> CannotStart:
    reasons: dict[int | None, str] = {
        errno.EADDRINUSE: "is in use by another program",
        errno.EADDRNOTAVAIL: "is not an address of this machine",
        errno.EACCES: "needs a privilege: ports below 1024 are root's",
    }
    reason = reasons.get(error.errno, f"cannot be listened on: {error.strerror}")
    return CannotStart(f"{address} {reason}")
