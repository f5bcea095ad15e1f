"""Listening sockets, made by the supervisor before its first child: TCP and Unix.

They listen from the start, so that a second daemon on the same address is refused at once; who
connects before the server is ready waits in the backlog. The supervisor keeps them open: they
outlive every acceptor.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from ..settings.bind_address import BindAddress
from ..supervisor.failures import CannotStart
from .inherited import Inherited
from .unix_listener import UnixPath, listen_unix

KEEPALIVE_PROBES = 4
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # as ::1 where IPv6 is off


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening, non-blocking socket; `path` is that of a Unix one which we have to remove."""

    socket: socket.socket
    path: UnixPath | None = None

    @property
    def address(self) -> str:
        """Where it really listens: with the port that the kernel chose for port 0."""
        if self.path is not None:
            return f"unix:{self.path.path}"
        if self.socket.family == socket.AF_UNIX:
            return f"unix:{self.socket.getsockname()}"
        host, port = self.socket.getsockname()[:2]
        return str(BindAddress(port, host=host, port=port))

    def close(self) -> None:
        """Stop listening and leave nothing behind; a second time changes nothing."""
        if self.socket.fileno() < 0:
            return
        self.socket.close()
        if self.path is not None:
            self.path.remove()


def open_listeners(
    addresses: Iterable[BindAddress],
    backlog: int,
    keepalive_s: int = 0,
    inherited: Inherited | None = None,
) -> list[Listener]:
    """A listener for each address, or several where a name has several; CannotStart.

    What is among the `inherited` sockets is taken from there. What TCP listeners accept is asked
    after `keepalive_s` of silence whether it is there; 0: never.
    """
    opened: list[Listener] = []
    addresses, inherited = list(addresses), inherited or Inherited()
    try:
        for address in addresses:
            if (passed := inherited.take(address)) is not None:
                opened.append(Listener(passed))
            elif address.is_unix:
                opened.append(Listener(*listen_unix(address.path, backlog)))
            else:
                listeners = _listen_tcp(address, addresses, backlog, inherited)
                opened.extend(listeners)
                for listener in listeners:
                    _keep_alive(listener.socket, keepalive_s)
    except BaseException:
        close_all(opened)
        raise
    return opened


def _keep_alive(sock: socket.socket, silence_s: int) -> None:
    """What `sock` accepts inherits it. A client that was killed has closed its sending half, as one
    that still waits for answers may have: only its system, asked later, knows the difference."""
    if silence_s:
        tcp = socket.IPPROTO_TCP
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(tcp, socket.TCP_KEEPIDLE, silence_s)
        sock.setsockopt(tcp, socket.TCP_KEEPINTVL, max(1, silence_s // KEEPALIVE_PROBES))
        sock.setsockopt(tcp, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def close_all(listeners: Iterable[Listener]) -> None:
    for listener in listeners:
        listener.close()


def _listen_tcp(
    address: BindAddress, others: list[BindAddress], backlog: int, inherited: Inherited
) -> list[Listener]:
    """One socket per IP address of the host; with port 0 one only: each would get another port."""
    opened: list[Listener] = []
    absent: OSError | None = None
    alone = not any(o.port == address.port and o.host == "0.0.0.0" for o in others)
    for family, place in _resolve(address):
        dual_stack = family == socket.AF_INET6 and alone
        if (passed := inherited.take_tcp(family, place)) is not None:
            opened.append(Listener(passed))
            continue
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
        errno.EADDRINUSE: f"is in use by another program{_who_listens(address.port)}",
        errno.EADDRNOTAVAIL: "is not an address of this machine",
        errno.EACCES: "needs a privilege: ports below 1024 are root's",
    }
    reason = reasons.get(error.errno, f"cannot be listened on: {error.strerror}")
    return CannotStart(f"{address} {reason}")


def _who_listens(port: int) -> str:
    """ ": NAME (pid NUMBER)" of who listens on a TCP port; "" if that is another user's secret."""
    with contextlib.suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN and each.laddr.port == port and each.pid:
                return f": {psutil.Process(each.pid).name()} (pid {each.pid})"
    return ""
