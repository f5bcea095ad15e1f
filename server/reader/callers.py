"""Who calls: the name that a connection, or one HTTP request, is accounted to.

Unix socket: the peer's user name, by the kernel's word. TCP: the client's address. A *claimed* name
(`faircall.hello {"user"}` on a stream, X-Faircall-User over HTTP) counts only from a trusted peer;
from anybody else it is refused, for a free choice of names would be a free choice of queues.
"""

from __future__ import annotations

import functools
import pwd
import socket
import struct
import weakref
from collections import deque
from typing import TYPE_CHECKING

from ...shm.names import OTHERS, Names
from ..settings.trusted_peers import TrustedPeers

if TYPE_CHECKING:
    from .connection import Connection

MAX_USER_CHARS = 256
RETRY_NS = 1_000_000_000  # how often a caller without a row of its own asks for one
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


@functools.lru_cache(maxsize=1024)  # who asks may be a directory server, far away
def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"


class Caller:
    """One name in this reader: its row in the identity table, and its place in the ready list."""

    __slots__ = (
        "__weakref__",
        "_used",
        "_word",
        "asked_ns",
        "level_word",
        "name",
        "ready",
        "reference",
        "refreshed_ns",
        "row",
        "unfinished",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[Connection] = deque()
        self.unfinished = 0  # bytes of input that its connections hold
        self.row = OTHERS
        self.reference = 0  # generation << 32 | row
        self.level_word = 0  # where in the segment the janitor publishes this caller's level
        self.asked_ns = 0
        self.refreshed_ns = 0
        self._word = self._used = 0

    def find(self, names: Names, now_ns: int) -> None:
        """Look the row up, or make one."""
        self.row = row = names.identity(self.name, now_ns)
        self.reference = names.reference(row)
        self.asked_ns = now_ns
        self._word, self._used = names.word(row, "word"), names.word(row, "used_ns")
        self.level_word = names.word(row, "level")

    def refresh(self, names: Names, now_ns: int) -> None:
        """Once per pass with calls: note that the row is used, and that it is still this name's."""
        self.refreshed_ns = now_ns
        q = names.identities.q
        q[self._used] = now_ns
        gone = q[self._word] >> 32 != self.reference >> 32
        if gone or (self.row == OTHERS and now_ns - self.asked_ns > RETRY_NS):
            self.find(names, now_ns)


class Callers:
    """The callers of one reader, by name: one object each while a connection is accounted to it.

    The last `most` that were new are kept as well, for the users that a proxy names by request;
    so however many names are made up, no more than that stay in memory.
    """

    def __init__(self, names: Names, most: int) -> None:
        self.names = names
        self._by_name: weakref.WeakValueDictionary[str, Caller] = weakref.WeakValueDictionary()
        self._newest: deque[Caller] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str, now_ns: int) -> Caller:
        """The caller of that name."""
        caller = self._by_name.get(name)
        if caller is None:
            caller = self._by_name[name] = Caller(name)
            caller.find(self.names, now_ns)
            self._newest.append(caller)
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
