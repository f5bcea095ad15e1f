"""From a message to staged calls, or to a refusal that says why and when to come back.

    message -> decode -> for each request: known method? who calls? which level? -> stage

The reader charges the caller on arrival, refused calls too: it keeps the levels of a flood stable.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..shm import states
from ..shm.columns import Counter
from ..shm.layout import METHOD, WORD, word_of
from ..shm.shared import Shared
from ..shm.states import Phase
from ..workers.envelope import Invalid, Meta, Request, decode, error_answer
from . import refusals
from .builtins import PREFIXES, Builtins
from .callbook import CallBook
from .callers import Caller, Callers, ClaimRefused
from .connection import Connection
from .enqueuer import Enqueuer
from .exchange import Batch, PendingCall
from .replies import Replies, error_for_all
from .wire.events import HttpMeta, Message

UNDECODED_METHOD = "(undecoded)"  # statistics of requests that a handler decodes

_METHOD_WORDS = METHOD.itemsize // WORD
_FLAGS, _TIMEOUT, _EXPECTED = (
    word_of(METHOD, name) for name in ("flags", "timeout_ns", "expected_ns")
)
_encode_meta = msgspec.json.Encoder().encode
NEVER_NS = 1 << 63


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
    claim_ahead_ns: int = 200_000


class Admission:
    """One reader's way in; what it stages goes to `enqueuer`."""

    def __init__(
        self,
        shared: Shared,
        index: int,
        book: CallBook,
        callers: Callers,
        builtins: Builtins,
        replies: Replies,
        enqueuer: Enqueuer,
        limits: AdmissionLimits,
    ) -> None:
        self._shared, self._index, self._book = shared, index, book
        self._callers, self._builtins = callers, builtins
        self._replies, self._enqueuer, self._limits = replies, enqueuer, limits
        self._q = shared.segment.q
        self._columns = shared.columns
        self._rows: dict[str, int] = {}
        self._methods0 = shared.names.methods.first
        self._undecoded = shared.names.method(UNDECODED_METHOD, 0, 0)
        self.next_deadline_ns = NEVER_NS  # no call in flight expires before

    def take(self, connection: Connection, message: Message, now_ns: int) -> int:
        """Stage the calls of `message`, or answer what needs no queue; how many it held."""
        try:
            caller = self._caller(connection, message.http, now_ns)
        except ClaimRefused as error:
            self._columns.add(self._index, Counter.CLAIMS_REFUSED)
            answer = error_for_all(message.body, refusals.unauthenticated(str(error)))
            connection.answer(message.exchange, answer or None)
            return 1
        if len(message.body) > self._limits.frame_only_above_bytes:
            self._take_undecoded(connection, caller, message, now_ns)
            return 1
        return self._take_decoded(connection, caller, message, now_ns)

    def _take_decoded(
        self, connection: Connection, caller: Caller, message: Message, now_ns: int
    ) -> int:
        limits, exchange = self._limits, message.exchange
        decoded = decode(
            message.body,
            max_batch=limits.max_batch,
            max_depth=limits.max_depth,
            max_id_bytes=limits.max_id_bytes,
        )
        items, batch = decoded.items, None
        if decoded.batch:
            batch = Batch(connection, exchange, len(items), limits.max_message_bytes)
        self._columns.add(self._index, Counter.CALLS, len(items))
        for item in items:
            pending = PendingCall(connection, exchange, item.id, batch)
            if isinstance(item, Invalid):
                self._columns.add(self._index, Counter.REFUSED_INVALID)
                self._replies.settle(pending, error_answer(item.id, item.error))
            elif item.method.startswith(PREFIXES) and self._builtins.knows(item.method):
                answer = self._builtins.answer(connection, item, now_ns)
                self._replies.settle(pending, answer)
            else:
                self._take_request(caller, pending, item, message.http, now_ns)
        return len(items)

    def _take_request(
        self,
        caller: Caller,
        pending: PendingCall,
        request: Request,
        http: HttpMeta | None,
        now_ns: int,
    ) -> None:
        self._columns.charge(self._index, caller.row, 1)
        row = self._rows.get(request.method)
        if row is None:
            row = self._find_method(request.method)
        if row < 0:
            self._columns.add(self._index, Counter.REFUSED_INVALID)
            self._replies.refuse(pending, refusals.unknown_method(request.method))
            return
        method, meta, body = self._methods0 + row * _METHOD_WORDS, request.meta, request.params
        timeout_ms = meta.timeout_ms if meta else None
        if timeout_ms is None and http:
            timeout_ms = http.timeout_ms
        pending.deadline_ns = now_ns + self._timeout_ns(method, timeout_ms)
        pending.flags = self._q[method + _FLAGS]
        if meta or http:
            body = _with_meta(pending, meta, http, body)
        self._stage(caller, pending, row, body, now_ns)

    def _take_undecoded(
        self, connection: Connection, caller: Caller, message: Message, now_ns: int
    ) -> None:
        """A long message is only framed here: a handler decodes it and answers the whole."""
        self._columns.add(self._index, Counter.CALLS)
        self._columns.charge(self._index, caller.row, 1)
        pending = PendingCall(connection, message.exchange, b"", flags=states.UNDECODED)
        method = self._methods0 + self._undecoded * _METHOD_WORDS
        body, timeout_ms = message.body, None
        if message.http:
            timeout_ms = message.http.timeout_ms
            body = _with_meta(pending, None, message.http, body)
        pending.deadline_ns = now_ns + self._timeout_ns(method, timeout_ms)
        self._stage(caller, pending, self._undecoded, body, now_ns, message.body)

    def _stage(
        self,
        caller: Caller,
        pending: PendingCall,
        row: int,
        body: bytes,
        now_ns: int,
        message: bytes = b"",
    ) -> None:
        if self._shared.phase.get() >= Phase.DRAINING:
            self._columns.add(self._index, Counter.SHUTTING_DOWN)
            self._replies.refuse(pending, refusals.SHUTTING_DOWN, message)
            return
        pending.level = caller.level(self._shared.names)
        expected_ns = self._q[self._methods0 + row * _METHOD_WORDS + _EXPECTED]
        short = 0 < expected_ns <= self._limits.claim_ahead_ns
        cls = states.SHORT if short else states.LONG
        call = states.call_word(row, cls=cls, flags=pending.flags, level=pending.level)
        slot = -1
        if self._book.has_free:
            slot = self._book.stage(pending, caller.reference, call, now_ns, expected_ns, body)
        if slot < 0:
            self._columns.add(self._index, Counter.REFUSED_QUEUE_FULL)
            error = refusals.no_pages(self._enqueuer.drain.retry_after_ms(now_ns))
            self._replies.refuse(pending, error, message, busy=True)
            return
        self._wait_for(pending, slot)
        self._enqueuer.staged.append((slot, pending.level))

    def _wait_for(self, pending: PendingCall, slot: int) -> None:
        """Somebody waits for the answer of `slot`, unless it is a notification."""
        if pending.deadline_ns < self.next_deadline_ns:
            self.next_deadline_ns = pending.deadline_ns
        if pending.id is None:
            self._replies.settle(pending, b"")
            pending.connection = None
        elif pending.connection:
            pending.connection.calls.add(slot)

    def _caller(self, connection: Connection, http: HttpMeta | None, now_ns: int) -> Caller:
        caller = connection.caller
        if http is not None and http.user is not None:
            caller = self._callers.claimed(connection.peer, http.user, now_ns)
            connection.claimed = True
        caller.refresh(self._shared.names, now_ns)
        return caller

    def _find_method(self, name: str) -> int:
        row = self._shared.names.methods.find(name)
        if row < 0 or row == self._undecoded:
            return -1
        self._rows[name] = row
        return row

    def _timeout_ns(self, method: int, asked_ms: float | None) -> int:
        """The shorter of what the caller and the method allow, within the server's limit."""
        limits = self._limits
        method_ns = self._q[method + _TIMEOUT]
        if asked_ms is None:
            return min(method_ns or limits.default_timeout_ns, limits.max_timeout_ns)
        return min(int(asked_ms * 1e6), method_ns or limits.max_timeout_ns, limits.max_timeout_ns)


def _with_meta(
    pending: PendingCall, meta: Meta | None, http: HttpMeta | None, body: bytes
) -> bytes:
    """Context, trace and attempt in front of the body, if the caller sent any."""
    context = (meta and meta.caller_context) or (http and http.context) or None
    trace = (meta and meta.traceparent) or (http and http.traceparent) or None
    attempt = meta.attempt if meta else None
    if context is None and trace is None and attempt is None:
        return body
    packed = _encode_meta(Meta(caller_context=context, attempt=attempt, traceparent=trace))
    if len(packed) >= 1 << 8 * states.META_LENGTH:
        return body
    pending.flags |= states.WITH_META
    return len(packed).to_bytes(states.META_LENGTH, "big") + packed + body
