"""The other end of a connection: by the kernel's word, or by that of a trusted proxy.

A Unix socket's peer has a user's name and is authenticated by the kernel. A TCP peer has an
address, which says where it is and not who.
"""

from __future__ import annotations

import functools
import pwd
import socket
import struct

from ..settings.trusted_peers import NOBODY, TrustedPeers

_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Peer:
    """`trusted`: it may say for whom it calls; `proxy`: for which address. `address` is None for
    one on a Unix socket, whose name is a user's."""

    __slots__ = ("address", "name", "proxy", "trusted")

    def __init__(
        self, name: str, trusted: bool, proxy: bool = False, address: str | None = None
    ) -> None:
        self.name = name
        self.trusted = trusted
        self.proxy = proxy
        self.address = address


def peer_of(sock: socket.socket, trusted: TrustedPeers, proxies: TrustedPeers = NOBODY) -> Peer:
    """The peer of a connected socket; OSError if it is gone already."""
    if sock.family == socket.AF_UNIX:
        packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        uid = _PEER_CREDENTIALS.unpack(packed)[1]
        return Peer(_user_name(uid), trusted.trusts_uid(uid), proxies.trusts_uid(uid))
    return peer_at(str(sock.getpeername()[0]), trusted, proxies)


def peer_at(host: str, trusted: TrustedPeers, proxies: TrustedPeers) -> Peer:
    """The peer with the IP address `host`, which the kernel or a trusted proxy has told."""
    name = host.removeprefix("::ffff:")
    return Peer(name, trusted.trusts_address(host), proxies.trusts_address(host), name)


@functools.lru_cache(maxsize=1024)  # who asks may be a directory server, far away
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"
