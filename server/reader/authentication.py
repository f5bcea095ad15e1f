"""Who a message is from: in this order, the last one that says something counts.

    1   the connection     a Unix socket's user (authenticated), or the client's address
    2   X-Forwarded-For    of a trusted proxy: another address
    3   a bearer token     its user (authenticated)
    4   a claimed name     of a trusted peer: that user (the peer is believed)

Over HTTP each request speaks for itself; on a stream `faircall.hello` speaks for the messages that
follow.
"""

from __future__ import annotations

from ..settings.trusted_peers import NOBODY, TrustedPeers
from ..wire.events import HttpMeta
from .callers import Callers, ClaimRefused, Unauthenticated
from .connection import Connection, Who
from .forwarded import client_of
from .pair_file import PairFile

REQUIRED = "this server asks who you are: call with a token, over its Unix socket or by a proxy"


class Authentication:
    """Without `tokens` no token is right. `required`: callers that are only addresses are refused;
    on a stream, that is, their calls are: it must be possible to say hello."""

    def __init__(
        self,
        callers: Callers,
        tokens: PairFile | None = None,
        proxies: TrustedPeers = NOBODY,
        required: bool = False,
    ) -> None:
        self.callers, self._tokens = callers, tokens
        self.proxies, self._required = proxies, required

    def is_enough(self, connection: Connection) -> bool:
        """Whether what is known of the connection will do for calls."""
        return connection.authenticated or not self._required

    def of(self, connection: Connection, http: HttpMeta | None, now_ns: int) -> Who:
        """Who sends a message; ClaimRefused, MalformedForwarding."""
        if http is not None:
            return self._of_request(connection, http, now_ns)
        who = connection.who
        if who.user:
            caller = self.callers.claimed(connection.peer, who.user, now_ns)
            if not caller.newcomers:
                connection.become(caller)
            return connection.who
        return Who(who.caller, refusal=REQUIRED)

    def greet(
        self, connection: Connection, user: str | None, token: str | None, now_ns: int
    ) -> str:
        """`faircall.hello`: who calls from now on; ClaimRefused leaves all as it was."""
        name, caller, claimed = user or "", None, False
        if token is not None:
            name = self._user_of(token)
            caller = self.callers.get(name, now_ns)
        if user is not None and (caller is None or user != name):
            name, caller, claimed = user, self.callers.claimed(connection.peer, user, now_ns), True
        if caller is not None:
            connection.become(caller, name if caller.newcomers else "", claimed)
        return name

    def forwarded(self, connection: Connection, who: Who, user: str, now_ns: int) -> Who:
        """A trusted peer makes a call for `user`; `who` sends it if that is no name."""
        try:
            caller = self.callers.claimed(connection.peer, user, now_ns)
        except ClaimRefused:
            return who
        connection.claimed = True
        return Who(caller, user if caller.newcomers else "", who.address)

    def _of_request(self, connection: Connection, http: HttpMeta, now_ns: int) -> Who:
        peer, caller, user = connection.peer, connection.caller, ""
        address, known = peer.address, connection.authenticated
        if peer.proxy and http.forwarded:
            address, known = client_of(http.forwarded, self.proxies), False
            caller = self.callers.get(address, now_ns)
        named = self._named_by_token(http)
        if named is not None:
            caller, known = self.callers.get(named, now_ns), True
        if http.user is not None and http.user != named:
            caller, known = self.callers.claimed(peer, http.user, now_ns), True
            user = http.user if caller.newcomers else ""
        if self._required and not known:
            raise Unauthenticated(REQUIRED)
        if caller is not connection.caller:
            connection.claimed = True
        return Who(caller, user, address)

    def _named_by_token(self, http: HttpMeta) -> str | None:
        """The user of the request's token, if there is one and we have tokens; ClaimRefused."""
        if self._tokens is None or http.authorization is None:
            return None
        scheme, _, token = http.authorization.partition(" ")
        return self._user_of(token.strip(" ")) if scheme.lower() == "bearer" else None

    def _user_of(self, token: str) -> str:
        if self._tokens is None:
            raise Unauthenticated("this server knows no tokens: identity.token-file names none")
        user = self._tokens.find(token)
        if user is None:
            raise Unauthenticated("this token is not known")
        return user
