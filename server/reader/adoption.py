"""From a socket that the acceptor hands over to a connection whose other end is known."""

from __future__ import annotations

import socket

from ..settings.trusted_peers import TrustedPeers
from ..wire.connection import Wire
from ..wire.limits import WireLimits
from .authentication import Authentication
from .connection import Connection
from .peers import peer_at, peer_of


class Adoption:
    """`trusted` peers may say for whom they call; those that are proxies, where a client is: with
    `proxy_protocol` by a header in front of everything else."""

    def __init__(
        self,
        authentication: Authentication,
        trusted: TrustedPeers,
        proxy_protocol: bool,
        limits: WireLimits,
    ) -> None:
        self._authentication, self._trusted = authentication, trusted
        self._callers, self._proxies = authentication.callers, authentication.proxies
        self._proxy_protocol = proxy_protocol
        self._tcp_limits, self._unix_limits = limits, limits.for_unix_socket()

    def connection_of(
        self, sock: socket.socket, touched: set[Connection], now_ns: int
    ) -> Connection | None:
        """None if its other end is gone already."""
        unix = sock.family == socket.AF_UNIX
        try:
            sock.setblocking(False)
            if not unix:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = peer_of(sock, self._trusted, self._proxies)
        except OSError:
            sock.close()
            return None
        limits = self._unix_limits if unix else self._tcp_limits
        wire = Wire(limits, introduced=self._proxy_protocol and peer.proxy)
        caller = self._callers.get(peer.name, now_ns)
        connection = Connection(sock, wire, peer, caller, touched, now_ns)
        connection.plain = self._authentication.is_enough(connection)
        return connection

    def introduce(self, connection: Connection, now_ns: int) -> None:
        """A trusted proxy has said for whom this connection is; "" is the proxy itself."""
        source, connection.wire.source = connection.wire.source, None
        if not connection.wire.buffered:  # the proxy's bytes are not the client's first ones
            connection.read_ns = 0
        if source:
            peer = peer_at(source, self._trusted, self._proxies)
            connection.introduce(peer, self._callers.get(peer.name, now_ns))
            connection.plain = self._authentication.is_enough(connection)
