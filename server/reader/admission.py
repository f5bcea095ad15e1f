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
from .caller_counts import UNKNOWN_METHOD, CallerCounts
from .callers import ClaimRefused
from .connection import Connection, Who
from .exchange import Batch, PendingCall
from .identities import Identities
from .replies import Replies
from .staging import UNDECODED_METHOD, Staging, with_meta

_CALLS, _INVALID = int(Counter.CALLS), int(Counter.REFUSED_INVALID)


class Admission:
    """One reader's way in, that of the process with this `index`; `staging` takes the calls.

    `identities` None: the caller itself is charged. `counted`: who calls what. `decode` takes a
    message apart.
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
        counted: CallerCounts,
        decode: Callable[[bytes], Decoded],
    ) -> None:
        self._index, self._names, self._identities = index, shared.names, identities
        self._table, self._places = shared.table, staging.places
        self._authentication, self._callers = authentication, authentication.callers
        self._builtins, self._replies, self._decode = builtins, replies, decode
        self._staging, self._rows, self._stage = staging, staging.rows, staging.stage
        self._unit, self._count = staging.unit, counted.count
        self._counts, self._charge = shared.columns.own(index), shared.columns.charge
        self._uncharged: list[Account] = []

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
        limits, exchange, batch, queued = self._staging.limits, message.exchange, None, 0
        if len(message.body) > limits.frame_only_above_bytes and self._may_be_framed(message):
            self._take_undecoded(connection, who, message, now_ns)
            return 1
        decoded, plain = self._decode(message.body), self._identities is None and not who.refusal
        items = decoded.items
        if decoded.batch:
            batch = Batch(connection, exchange, len(items), limits.max_message_bytes)
        self._counts[_CALLS] += len(items)
        for item in items:
            pending = PendingCall(connection, exchange, item.id, batch)
            if isinstance(item, Invalid):
                self._counts[_INVALID] += 1
                self._replies.settle(pending, error_answer(item.id, item.error))
            elif item.method in self._builtins.methods:
                answer = self._builtins.answer(connection, who, item, now_ns)
                self._replies.settle(pending, answer)
            elif item.meta is not None and item.meta.chain:
                self._take_nested(connection, who, pending, item, http, now_ns)
            elif plain:
                queued += 1
                self._take_request(who, caller, pending, item, http, now_ns)
            else:
                self._take_identified(who, pending, item, http, now_ns)
        if queued:
            if not caller.uncharged:
                self._uncharged.append(caller)
            caller.uncharged += queued
        if who.user:
            self._callers.called(who.user, len(items))
        return len(items)

    def charge(self) -> None:
        """Charge the calls of plain callers that were taken since the last time."""
        for caller in self._uncharged:
            calls, caller.uncharged = caller.uncharged, 0
            self._charge(self._index, caller.row, calls * self._unit, calls)
        self._uncharged.clear()

    def _may_be_framed(self, message: Message) -> bool:
        """Whether a long message goes to a handler as it is; not, if what it calls is limited."""
        if self._staging.has_rates:
            return False
        group = self._places.group_of_message(message.body) if self._places.are_several else 0
        if group >= 0:
            self._staging.send_undecoded(group)
        return group >= 0

    def _take_nested(
        self,
        connection: Connection,
        who: Who,
        pending: PendingCall,
        request: Request,
        http: HttpMeta | None,
        now_ns: int,
    ) -> None:
        """A function of some server makes this call, and that server waits for its answer."""
        meta, policy = request.meta, self._staging.limits.nested_calls
        assert meta is not None
        if meta.for_user and connection.peer.trusted and who.caller is connection.caller:
            who = self._authentication.forwarded(connection, who, meta.for_user, now_ns)
            who.caller.refresh(self._names, now_ns)
        group = self._places.group_of(request.method)
        name = self._places.name_of(request.method)
        waits = name in meta.chain and pending.id is not None
        if policy != "queue" and waits and not self._table.some_idles(group):
            direct = policy == "inline" and meta.chain[-1] == name
            self._counts[Counter.REFUSED_QUEUE_FULL] += 1
            self._charge(self._index, who.caller.row, self._unit)
            self._replies.refuse(pending, refusals.nested(name if direct else None))
        else:
            self._take_identified(who, pending, request, http, now_ns)
        if who.user:
            self._callers.called(who.user, 1)

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
        meta, row = request.meta, self._rows.get(request.method)
        context = None if meta is None else meta.caller_context
        if row is None:
            row = self._staging.find_method(request.method)
        if row < 0:
            self._counts[_INVALID] += 1
            context = context or (http.context if http else None)
            self._count(who, account, UNKNOWN_METHOD, context)
            self._replies.refuse(pending, self._unknown_method(request.method))
            return
        body = request.params
        timeout_ms: float | None = None
        if http is not None and http is not NO_META:
            timeout_ms, context = http.timeout_ms, context or http.context
            body = with_meta(pending, meta, http, body, who.user)
        elif meta is not None or who.user:
            body = with_meta(pending, meta, NO_META, body, who.user)
        if meta is not None and meta.timeout_ms is not None:
            timeout_ms = meta.timeout_ms
        pending.tally = self._count(who, account, row, context)
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
        pending.tally = self._count(who, account, row, http.context)
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
