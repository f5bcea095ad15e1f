"""From a message to staged calls, or to a refusal that says why and when to come back.

    message -> who calls? -> decode -> for each request: known method? which level? -> stage

The reader charges on arrival, refused calls too: it keeps the levels of a flood stable. Charged is
the caller, or where there are `identities` the identity that they find for the call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ...shm import states
from ...shm.columns import Counter
from ...shm.layout import METHOD, WORD, word_of
from ...shm.shared import Shared
from ...workers.envelope import CarriedMeta, Decoded, Invalid, Meta, Request, error_answer
from ..wire.events import NO_META, HttpMeta, Message
from . import refusals
from .accounts import Account
from .arrivals import Arrivals
from .authentication import Authentication
from .builtins import Builtins
from .callbook import CallBook
from .callers import Callers, ClaimRefused
from .connection import Connection, Who
from .enqueuer import Enqueuer
from .exchange import Batch, PendingCall
from .identities import Identities
from .replies import Replies

UNDECODED_METHOD = "(undecoded)"  # statistics of requests that a handler decodes

_METHOD_WORDS = METHOD.itemsize // WORD
_FLAGS, _TIMEOUT, _EXPECTED = (
    word_of(METHOD, name) for name in ("flags", "timeout_ns", "expected_ns")
)
_CALLS, _INVALID = int(Counter.CALLS), int(Counter.REFUSED_INVALID)
_encode_meta = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """What admission needs to know of the settings."""

    max_message_bytes: int = 16 << 20
    frame_only_above_bytes: int = 256 << 10
    max_batch: int = 1000
    max_depth: int = 128
    max_id_bytes: int = 256
    default_timeout_ns: int = 60_000_000_000
    max_timeout_ns: int = 3_600_000_000_000


class Admission:
    """One reader's way in; what it stages goes to `enqueuer`. `draining`: nothing new is taken."""

    def __init__(
        self,
        shared: Shared,
        index: int,
        book: CallBook,
        callers: Callers,
        authentication: Authentication,
        identities: Identities | None,
        builtins: Builtins,
        replies: Replies,
        enqueuer: Enqueuer,
        decode: Callable[[bytes], Decoded],
        limits: AdmissionLimits,
        arrivals: Arrivals,
    ) -> None:
        self._index, self._book, self._callers = index, book, callers
        self._authentication, self._identities = authentication, identities
        self._builtins, self._replies, self._enqueuer = builtins, replies, enqueuer
        self._decode, self._limits, self._arrivals = decode, limits, arrivals
        self._unit = arrivals.unit
        self._q, self._names, self._table = shared.segment.q, shared.names, shared.table
        self._counts, self._charge = shared.columns.own(index), shared.columns.charge
        self.draining = False
        self._rows: dict[str, int] = {}
        self._methods0 = shared.names.methods.first
        self._undecoded = shared.names.method(UNDECODED_METHOD, 0, 0)

    def configure(self, limits: AdmissionLimits) -> None:
        """Go by these from now on; what a message may hold does not change."""
        self._limits = limits

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
        if len(message.body) > self._limits.frame_only_above_bytes:
            self._take_undecoded(connection, who, message, now_ns)
            return 1
        return self._take_decoded(connection, who, message, now_ns)

    def _take_decoded(self, connection: Connection, who: Who, message: Message, now_ns: int) -> int:
        decoded, exchange, batch = self._decode(message.body), message.exchange, None
        items, caller, queued = decoded.items, who.caller, 0
        plain = self._identities is None and not who.refusal
        if decoded.batch:
            batch = Batch(connection, exchange, len(items), self._limits.max_message_bytes)
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
            row = self._find_method(request.method)
        if row < 0:
            self._counts[_INVALID] += 1
            self._replies.refuse(pending, refusals.unknown_method(request.method))
            return
        meta, body = request.meta, request.params
        timeout_ms: float | None = None
        if http is not None and http is not NO_META:
            timeout_ms = http.timeout_ms
            body = _with_meta(pending, meta, http, body, who.user)
        elif meta is not None or who.user:
            body = _with_meta(pending, meta, NO_META, body, who.user)
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
        body = _with_meta(pending, None, http, raw, who.user)
        self._stage(who, account, pending, self._undecoded, body, http.timeout_ms, now_ns, raw)

    def _stage(
        self,
        who: Who,
        account: Account,
        pending: PendingCall,
        row: int,
        body: bytes,
        timeout_ms: float | None,
        now_ns: int,
        message: bytes = b"",
    ) -> None:
        """Into a slot that the enqueuer will offer; `message` is that of an undecoded call."""
        if self.draining:
            self._counts[Counter.SHUTTING_DOWN] += 1
            self._arrivals.refused_without_slot(account.row)
            self._replies.refuse(pending, refusals.SHUTTING_DOWN, message)
            return
        q, method = self._q, self._methods0 + row * _METHOD_WORDS
        pending.flags |= q[method + _FLAGS]
        if pending.id is None:
            pending.flags |= states.NOTIFICATION
        pending.deadline_ns = now_ns + self._timeout_ns(q[method + _TIMEOUT], timeout_ms)
        expected_ns, level = q[method + _EXPECTED], q[account.level_word]
        short = 0 < expected_ns <= self._table.policy.claim_ahead_ns
        cls = states.SHORT if short else states.LONG
        call = states.call_word(row, cls=cls, flags=pending.flags, level=level)
        slot = -1
        if self._book.has_free:
            slot = self._book.stage(
                pending, account.reference, who.caller.reference, call, now_ns, expected_ns, body
            )
        if self._arrivals.stamps:
            self._arrivals.reserve(account.row, row, slot)
        if slot < 0:
            self._arrivals.refused_without_slot(account.row)
            self._refuse_for_room(pending, level, message)
            return
        self._enqueuer.staged.append((slot, level))
        if pending.connection:
            pending.connection.calls.add(slot)

    def _refuse_for_room(self, pending: PendingCall, level: int, message: bytes) -> None:
        rule = "limits.segment-payload-bytes" if self._book.has_free else "callqueue.total-capacity"
        error = refusals.no_room(rule, self._enqueuer.drain.retry_after_ms())
        self._enqueuer.refuser.no_room(pending, level, error, message)

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

    def _is_known(self, method: str) -> bool:
        return method in self._rows or self._find_method(method) >= 0

    def _find_method(self, name: str) -> int:
        row = self._names.methods.find(name)
        if row < 0 or row == self._undecoded:
            return -1
        self._rows[name] = row
        return row

    def _timeout_ns(self, method_ns: int, asked_ms: float | None) -> int:
        """The shorter of what the caller and the method allow, within the server's limit."""
        limits = self._limits
        if asked_ms is None:
            return min(method_ns or limits.default_timeout_ns, limits.max_timeout_ns)
        return min(int(asked_ms * 1e6), method_ns or limits.max_timeout_ns, limits.max_timeout_ns)


def _with_meta(
    pending: PendingCall, meta: Meta | None, http: HttpMeta, body: bytes, user: str
) -> bytes:
    """Context, trace, attempt and user in front of the body, if there are any to be told."""
    context = (meta and meta.caller_context) or http.context
    trace = (meta and meta.traceparent) or http.traceparent
    attempt = meta.attempt if meta else None
    if context is None and trace is None and attempt is None and not user:
        return body
    packed = _encode_meta(
        CarriedMeta(caller_context=context, attempt=attempt, traceparent=trace, user=user or None)
    )
    if len(packed) >= 1 << 8 * states.META_LENGTH:
        return _with_meta(pending, None, NO_META, body, user)
    pending.flags |= states.WITH_META
    return len(packed).to_bytes(states.META_LENGTH, "big") + packed + body
