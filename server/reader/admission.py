"""From a message to staged calls, or to a refusal that says why and when to come back.

    message -> who calls? -> decode -> for each request: known method? who is charged? -> stage

The reader charges on arrival, refused calls too: it keeps the levels of a flood stable. Charged is
the caller, or where there are `identities` the identity that they find for the call.
"""

from __future__ import annotations

from collections.abc import Callable

from ...shm import states
from ...shm.columns import Counter
from ...shm.shared import Shared
from ...workers.envelope import Decoded, Invalid, Request, error_answer
from ...workers.suggestion import unknown_method
from ..wire.events import NO_META, HttpMeta, Message
from . import refusals
from .accounts import Account
from .authentication import Authentication
from .builtins import Builtins
from .callers import ClaimRefused
from .connection import Connection, Who
from .exchange import Batch, PendingCall
from .identities import Identities
from .replies import Replies
from .staging import UNDECODED_METHOD, Staging, with_meta

_CALLS, _INVALID = int(Counter.CALLS), int(Counter.REFUSED_INVALID)


class Admission:
    """One reader's way in, that of the process with this `index`; `staging` takes the calls.

    `identities` None: the caller itself is charged. `decode` takes a message apart.
    """

    def __init__(
        self,
        shared: Shared,
        index: int,
        authentication: Authentication,
        identities: Identities | None,
        builtins: Builtins,
        replies: Replies,
        staging: Staging,
        decode: Callable[[bytes], Decoded],
    ) -> None:
        self._index, self._names, self._identities = index, shared.names, identities
        self._authentication, self._callers = authentication, authentication.callers
        self._builtins, self._replies, self._decode = builtins, replies, decode
        self._staging, self._rows, self._stage = staging, staging.rows, staging.stage
        self._unit = staging.unit
        self._counts, self._charge = shared.columns.own(index), shared.columns.charge

    def take(self, connection: Connection, message: Message, now_ns: int) -> int:
        """Stage the calls of `message`, or answer what needs no queue; how many it held."""
        who, http = connection.who, message.http
        if not connection.plain or (http is not None and http.names_somebody):
            try:
                who = self._authentication.of(connection, http, now_ns)
            except ClaimRefused as error:
                self._refuse_claim(connection, message, error, now_ns)
                return 1
        caller = who.caller
        if caller.refreshed_ns != now_ns:
            caller.refresh(self._names, now_ns)
        is_long = len(message.body) > self._staging.limits.frame_only_above_bytes
        if is_long and not self._staging.has_rates:  # what is called must be known, to be limited
            self._take_undecoded(connection, who, message, now_ns)
            return 1
        return self._take_decoded(connection, who, message, now_ns)

    def _take_decoded(self, connection: Connection, who: Who, message: Message, now_ns: int) -> int:
        decoded, exchange, batch = self._decode(message.body), message.exchange, None
        items, caller, queued = decoded.items, who.caller, 0
        plain = self._identities is None and not who.refusal
        if decoded.batch:
            batch = Batch(connection, exchange, len(items), self._staging.limits.max_message_bytes)
        self._counts[_CALLS] += len(items)
        for item in items:
            pending = PendingCall(connection, exchange, item.id, batch)
            if isinstance(item, Invalid):
                self._counts[_INVALID] += 1
                self._replies.settle(pending, error_answer(item.id, item.error))
            elif item.method in self._builtins.methods:
                answer = self._builtins.answer(connection, item, now_ns)
                self._replies.settle(pending, answer)
            elif plain:
                queued += 1
                self._take_request(who, caller, pending, item, message.http, now_ns)
            else:
                self._take_identified(who, pending, item, message.http, now_ns)
        if queued:
            self._charge(self._index, caller.row, queued * self._unit, queued)
        if who.user:
            self._callers.called(who.user, len(items))
        return len(items)

    def _take_identified(
        self, who: Who, pending: PendingCall, request: Request, http: HttpMeta | None, now_ns: int
    ) -> None:
        """Where more is asked than who the user is."""
        account: Account = who.caller
        if self._refuse_unknown(who, pending):
            pass
        elif self._identities is not None and self._is_known(request.method):
            context = (request.meta and request.meta.caller_context) or (http and http.context)
            account = self._identities.of(who, context or None, request.method, now_ns)
            self._take_request(who, account, pending, request, http, now_ns)
        else:
            self._take_request(who, account, pending, request, http, now_ns)
        self._charge(self._index, account.row, self._unit)

    def _take_request(
        self,
        who: Who,
        account: Account,
        pending: PendingCall,
        request: Request,
        http: HttpMeta | None,
        now_ns: int,
    ) -> None:
        row = self._rows.get(request.method)
        if row is None:
            row = self._staging.find_method(request.method)
        if row < 0:
            self._counts[_INVALID] += 1
            self._replies.refuse(pending, self._unknown_method(request.method))
            return
        meta, body = request.meta, request.params
        timeout_ms: float | None = None
        if http is not None and http is not NO_META:
            timeout_ms = http.timeout_ms
            body = with_meta(pending, meta, http, body, who.user)
        elif meta is not None or who.user:
            body = with_meta(pending, meta, NO_META, body, who.user)
        if meta is not None and meta.timeout_ms is not None:
            timeout_ms = meta.timeout_ms
        self._stage(who, account, pending, row, body, timeout_ms, now_ns)

    def _take_undecoded(
        self, connection: Connection, who: Who, message: Message, now_ns: int
    ) -> None:
        """A long message is only framed here: a handler decodes it and answers the whole."""
        self._counts[_CALLS] += 1
        account: Account = who.caller
        pending = PendingCall(connection, message.exchange, b"", None, states.UNDECODED)
        http, raw = message.http or NO_META, message.body
        if self._refuse_unknown(who, pending, raw):
            self._charge(self._index, account.row, self._unit)
            return
        if self._identities is not None:
            account = self._identities.of(who, http.context, UNDECODED_METHOD, now_ns)
        self._charge(self._index, account.row, self._unit)
        if who.user:
            self._callers.called(who.user, 1)
        body = with_meta(pending, None, http, raw, who.user)
        row, timeout_ms = self._staging.undecoded, http.timeout_ms
        self._stage(who, account, pending, row, body, timeout_ms, now_ns, raw)

    def _refuse_claim(
        self, connection: Connection, message: Message, error: ClaimRefused, now_ns: int
    ) -> None:
        self._counts[_CALLS] += 1
        self._counts[Counter.CLAIMS_REFUSED] += 1
        caller = connection.caller
        caller.refresh(self._names, now_ns)
        self._charge(self._index, caller.row, self._unit)
        answer = self._replies.error_for_all(message.body, refusals.unauthenticated(str(error)))
        pending = PendingCall(connection, message.exchange, b"")
        self._replies.settle(pending, answer, error.status)

    def _refuse_unknown(self, who: Who, pending: PendingCall, message: bytes = b"") -> bool:
        """Whether the call was refused, for nobody knows who makes it."""
        if who.refusal:
            self._counts[Counter.CLAIMS_REFUSED] += 1
            self._replies.refuse(pending, refusals.unauthenticated(who.refusal), message)
        return bool(who.refusal)

    def _unknown_method(self, name: str) -> bytes:
        staging, builtins = self._staging, self._builtins
        return unknown_method(name, lambda: [*staging.method_names(), *builtins.methods])

    def _is_known(self, method: str) -> bool:
        return method in self._rows or self._staging.find_method(method) >= 0
