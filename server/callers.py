"""Who calls: the name that a connection, or one HTTP request, is accounted to.

Unix socket: the peer's user name, by the kernel's word. TCP: the client's address. A *claimed* name
(`faircall.hello {"user"}` on a stream, X-Faircall-User over HTTP) counts only from a trusted peer;
from anybody else it is refused, for a free choice of names would be a free choice of queues.
"""

from __future__ import annotations

import pwd
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING

from ..shm.names import OTHERS, Names
from .trusted_peers import TrustedPeers

if TYPE_CHECKING:
    from .connection import Connection

MAX_USER_CHARS = 256
_RETRY_NS = 1_000_000_000  # how often a caller without a row of its own asks for one
_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class ClaimRefused(Exception):
    """This peer may not say for whom it calls; the message says what to do."""


class Peer:
    """The other end of a connection, as the kernel knows it."""

    __slots__ = ("name", "trusted")

    def __init__(self, name: str, trusted: bool) -> None:
        self.name = name
        self.trusted = trusted


def peer_of(sock: socket.socket, trusted: TrustedPeers) -> Peer:
    """The peer of a connected socket; OSError if it is gone already."""
    if sock.family == socket.AF_UNIX:
        packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
        uid = _PEER_CREDENTIALS.unpack(packed)[1]
        return Peer(_user_name(uid), trusted.trusts_uid(uid))
    host = str(sock.getpeername()[0])
    return Peer(host.removeprefix("::ffff:"), trusted.trusts_address(host))


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"


class Caller:
    """One name in this reader: its row in the identity table, and its place in the ready list."""

    __slots__ = (
        "_level",
        "_used",
        "_word",
        "asked_ns",
        "name",
        "ready",
        "reference",
        "row",
        "unfinished",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[Connection] = deque()
        self.row = OTHERS
        self.reference = 0
        self.asked_ns = 0
        self.unfinished = 0  # bytes of input that its connections hold
        self._word = self._used = self._level = 0

    def find(self, names: Names, now_ns: int) -> None:
        """Look the row up, or make one."""
        self.row = names.identity(self.name, now_ns)
        self.reference = names.reference(self.row)
        self.asked_ns = now_ns
        self._word, self._used = names.word(self.row, "word"), names.word(self.row, "used_ns")
        self._level = names.word(self.row, "level")

    def refresh(self, names: Names, now_ns: int) -> None:
        """Before a batch of calls: note that the row is used, and that it is still this name's."""
        q = names.identities.q
        q[self._used] = now_ns
        gone = q[self._word] >> 32 != self.reference >> 32
        if gone or (self.row == OTHERS and now_ns - self.asked_ns > _RETRY_NS):
            self.find(names, now_ns)

    def level(self, names: Names) -> int:
        """The level that the janitor has published for this caller."""
        return names.identities.q[self._level]


class Callers:
    """The callers of one reader, by name; forgets the idle ones when there are too many."""

    def __init__(self, names: Names, most: int) -> None:
        self.names = names
        self._most = most
        self._by_name: dict[str, Caller] = {}

    def get(self, name: str, now_ns: int) -> Caller:
        """The caller of that name."""
        caller = self._by_name.get(name)
        if caller is None:
            if len(self._by_name) >= self._most:
                self._forget_idle()
            caller = self._by_name[name] = Caller(name)
            caller.find(self.names, now_ns)
        return caller

    def claimed(self, peer: Peer, name: str, now_ns: int) -> Caller:
        """The caller that a peer claims to call for; ClaimRefused if it may not."""
        if not peer.trusted:
            raise ClaimRefused(
                f"{peer.name} may not say for whom it calls: list it in identity.trusted-peers"
            )
        if not 0 < len(name) <= MAX_USER_CHARS or not name.isprintable():
            raise ClaimRefused(f"a user is named with 1 to {MAX_USER_CHARS} printable characters")
        return self.get(name, now_ns)

    def _forget_idle(self) -> None:
        """Drop all that hold no place in the ready list: connections keep their own caller."""
        self._by_name = {name: c for name, c in self._by_name.items() if c.ready}
