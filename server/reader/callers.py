"""Who calls: the principals of a reader, each with its row and its place in the ready list.

The principal of a call is who was authenticated, or the client's address. It takes turns, and its
waiting calls are bounded. A *claimed* name (`faircall.hello {"user"}` on a stream, X-Faircall-User
over HTTP) counts only from a trusted peer; from anybody else it is refused, for a free choice of
names would be a free choice of queues. What a trusted peer claims may still come from its own
clients, so a name that is new shares one account with all that are new by that peer (`newcomers`).
"""

from __future__ import annotations

import ipaddress
import json
import weakref
from collections import deque
from typing import TYPE_CHECKING

from ...shm.names import Names
from .accounts import Account
from .newcomers import Newcomers
from .peers import Peer

if TYPE_CHECKING:
    from .connection import Connection

MAX_USER_CHARS = 256


class ClaimRefused(Exception):
    """This peer may not say for whom it calls; the message says what to do.

    `status` is that of the answer over HTTP.
    """

    status = 200


class Unauthenticated(ClaimRefused):
    """The caller has to say who it is, and to prove it."""

    status = 401


def _may_not(peer: Peer, name: str) -> str:
    """What a peer that is not trusted is told."""
    shown = json.dumps(name[:MAX_USER_CHARS], ensure_ascii=not name.isprintable())
    advice = "list it in identity.trusted-peers"
    if peer.address and ipaddress.ip_address(peer.address.partition("%")[0]).is_loopback:
        advice = f"start the server with --trust-loopback, or {advice}"
    return f"{peer.name} may not call as {shown}: {advice}"


class Caller(Account):
    """One principal in this reader."""

    __slots__ = ("__weakref__", "ready", "unfinished")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.ready: deque[Connection] = deque()
        self.unfinished = 0  # bytes of input that its connections hold


class Callers:
    """The callers of one reader, by name: one object each while a connection is accounted to it.

    The last `most` that were new are kept as well, for the users that a proxy names by request;
    so however many names are made up, no more than that stay in memory. Without `newcomers` every
    name has a row at once.
    """

    def __init__(self, names: Names, most: int, newcomers: Newcomers | None = None) -> None:
        self.names = names
        self.newcomers = newcomers
        self._by_name: weakref.WeakValueDictionary[str, Caller] = weakref.WeakValueDictionary()
        self._newest: deque[Caller] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str, now_ns: int, level: int = 0) -> Caller:
        """The caller of that name; a row that is made for it begins at `level`."""
        caller = self._by_name.get(name)
        if caller is None:
            caller = self._by_name[name] = Caller(name)
            caller.find(self.names, now_ns, level)
            self._newest.append(caller)
        return caller

    def claimed(self, peer: Peer, name: str, now_ns: int) -> Caller:
        """The caller that a peer claims to call for, or the account of its newcomers;
        ClaimRefused if it may not."""
        if not peer.trusted:
            raise ClaimRefused(_may_not(peer, name))
        if not 0 < len(name) <= MAX_USER_CHARS or not name.isprintable():
            raise ClaimRefused(f"a user is named with 1 to {MAX_USER_CHARS} printable characters")
        return self._by_name.get(name) or self._new(peer, name, now_ns)

    def called(self, name: str, calls: int) -> None:
        """A newcomer has made `calls` more."""
        if self.newcomers is not None:
            self.newcomers.count(hash(name), calls)

    def _new(self, peer: Peer, name: str, now_ns: int) -> Caller:
        if self.newcomers is None or self.names.identities.find(name) >= 0:
            return self.get(name, now_ns)
        account = self.get(f"(newcomers of {peer.name})", now_ns)
        account.newcomers = True
        if not self.newcomers.has_grown(hash(name)):
            return account
        account.refresh(self.names, now_ns)
        return self.get(name, now_ns, self.names.level(account.row))
