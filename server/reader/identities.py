"""Whose level a call has, where `identity-provider.impl` asks for more than the user.

A call has two rows. Its *principal* takes turns and has a bounded share of the queue: always the
user or the address. Its *identity* decides the level and is charged, the principal is not charged
again: so all shares add up to one. An identity that is new is its principal's own row, until it
has grown (`newcomers`).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from hashlib import blake2b

from ...scheduling.identity import UNKNOWN, IdentityProvider
from ...scheduling.identity import Caller as Facts
from ...shm.columns import Counter
from ...shm.layout import NAME_BYTES
from ...shm.names import Names
from .accounts import Account
from .connection import Who
from .newcomers import Newcomers

log = logging.getLogger("faircall.reader")

MOST = 4096  # identities that one reader keeps at hand


class Identities:
    """Asks `provider`; what it raises, or None, is one identity of its own: `UNKNOWN`."""

    def __init__(
        self,
        names: Names,
        provider: IdentityProvider,
        newcomers: Newcomers | None,
        counts: memoryview,
        most: int = MOST,
    ) -> None:
        self._names, self._provider, self._newcomers = names, provider, newcomers
        self._counts, self._most = counts, most
        self._accounts: OrderedDict[str, Account] = OrderedDict()  # the last used at the end
        self._complained = False

    def __len__(self) -> int:
        return len(self._accounts)

    def of(self, who: Who, context: str | None, method: str, now_ns: int) -> Account:
        """The account that a call is charged to, fresh for this pass."""
        user = who.name
        name = self._ask(Facts(user, context, who.address or user, method))
        if name == user:
            return who.caller
        account = self._accounts.get(name)
        if account is None:
            account = self._meet(who, name, now_ns)
        else:
            self._accounts.move_to_end(name)
            if account.refreshed_ns != now_ns:
                account.refresh(self._names, now_ns)
        return account

    def _meet(self, who: Who, name: str, now_ns: int) -> Account:
        principal, newcomers, level = who.caller, self._newcomers, 0
        if newcomers is not None and name != UNKNOWN and self._names.identities.find(name) < 0:
            key = hash((principal.name, name))
            if not newcomers.has_grown(key):
                newcomers.count(key)
                return principal
            level = self._names.level(principal.row)
        account = Account(name)
        account.find(self._names, now_ns, level)
        if len(self._accounts) >= self._most:
            self._accounts.popitem(last=False)
        self._accounts[name] = account
        return account

    def _ask(self, facts: Facts) -> str:
        try:
            identity = self._provider.identity_of(facts)
            if identity is not None and (name := _tidy(str(identity))):
                return name
            self._complain("it has none")
        except BaseException as error:  # an operator's own function must not end the reader
            self._complain(f"it raised {type(error).__name__}", error)
        return UNKNOWN

    def _complain(self, why: str, error: BaseException | None = None) -> None:
        self._counts[Counter.IDENTITY_UNKNOWN] += 1
        if not self._complained:
            self._complained = True
            provider = type(self._provider).__name__
            fields = {"provider": provider, "error": why, "charged": UNKNOWN}
            log.warning("no identity", fields, exc_info=error)


def _tidy(name: str) -> str:
    """Printable, and no longer than a row holds: the rest becomes a digest."""
    if not name.isprintable():
        name = name.encode("unicode_escape").decode()
    if len(name) <= NAME_BYTES:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{name[: NAME_BYTES - 17]}~{digest}"
