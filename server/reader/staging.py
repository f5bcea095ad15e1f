"""From a request that may be taken to a staged call: its method, its deadline, its words in a slot.

Who draws no slot or no page is refused here, as is everybody while the server drains.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...shm import states
from ...shm.columns import Counter
from ...shm.layout import GROUP_SHIFT, METHOD, WORD, word_of
from ...shm.shared import Shared
from ...workers.envelope import CarriedMeta, Meta
from ..wire.events import NO_META, HttpMeta
from . import refusals
from .accounts import Account
from .arrivals import Arrivals
from .callbook import CallBook
from .connection import Who
from .enqueuer import Enqueuer
from .exchange import PendingCall
from .lanes import Lanes, ReservedCalls
from .places import Places
from .replies import Replies
from .throttle import Throttle

UNDECODED_METHOD = "(undecoded)"  # statistics of requests that a handler decodes

_METHOD_WORDS = METHOD.itemsize // WORD
_FLAGS, _TIMEOUT, _EXPECTED, _MEAN = (
    word_of(METHOD, name) for name in ("flags", "timeout_ns", "expected_ns", "mean_ns")
)
MEANS = 4  # a method's calls are short as well if so many times their mean is a short time
_LONG = states.LONG << states.CLASS_SHIFT  # in a `call` word
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
    nested_calls: str = "inline"


class Staging:
    """One reader's; what it stages goes to `enqueuer`. `draining`: nothing new is taken."""

    def __init__(
        self,
        shared: Shared,
        book: CallBook,
        enqueuer: Enqueuer,
        arrivals: Arrivals,
        replies: Replies,
        counts: memoryview,
        limits: AdmissionLimits,
        reserved: ReservedCalls,
        throttle: Throttle,
        places: Places,
    ) -> None:
        """`limits` may change meanwhile, but for what a message may hold."""
        self._q, self._names, self._table = shared.segment.q, shared.names, shared.table
        self._book, self._enqueuer, self._arrivals = book, enqueuer, arrivals
        self._replies, self._counts, self.limits = replies, counts, limits
        self._levels = shared.geometry.levels
        self._throttle, self._rates = throttle, throttle.version_word
        self.lanes = Lanes(self._levels, reserved)
        self.places, self._bases = places, places.bases if places.are_several else None
        self.unit, self._stamps = arrivals.unit, arrivals.stamps
        self.draining = False
        self.rows: dict[str, int] = {}  # of the methods that were called
        self._methods0 = shared.names.methods.first
        self.undecoded = shared.names.method(UNDECODED_METHOD, 0, 0)

    def find_method(self, name: str) -> int:
        """The row of a method of the service; -1 if there is none of that name."""
        row = self._names.methods.find(name)
        if row < 0 or row == self.undecoded or not self._names.has_method(row):
            return -1
        self.rows[name] = row
        self.lanes.know(name, row)
        self.places.know(name, row)
        return row

    @property
    def has_rates(self) -> bool:
        """Whether there is, or was, any rate."""
        return bool(self._q[self._rates])

    def method_names(self) -> list[str]:
        """Those of the service."""
        names, methods = self._names, self._names.methods
        rows = (row for row in methods.used_rows() if row != self.undecoded)
        return [methods.name(row) for row in rows if names.has_method(row)]

    def stage(
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
        q, method, caller = self._q, self._methods0 + row * _METHOD_WORDS, who.caller
        pending.caller = user = who.name
        pending.flags = flags = pending.flags | q[method + _FLAGS]
        if pending.id is None:
            pending.flags = flags = flags | states.NOTIFICATION
            self._enqueuer.silent = True
        timeout_ns, limits = q[method + _TIMEOUT], self.limits
        if timeout_ms is None:
            timeout_ns = timeout_ns or limits.default_timeout_ns
            if timeout_ns > limits.max_timeout_ns:
                timeout_ns = limits.max_timeout_ns
        else:
            timeout_ns = self._asked_ns(timeout_ms, timeout_ns)
        pending.deadline_ns = deadline_ns = now_ns + timeout_ns
        expected_ns, place = q[method + _EXPECTED], q[account.level_word]
        level = place
        if self.lanes.are_used:
            place = self.lanes.place(user, row, level)
        if place >= self._levels:  # a lane
            level = 0
        if self._bases is not None:
            place += self._bases[row]
        below_ns = self._table.policy.short_ns
        short = 0 < expected_ns <= below_ns or self._is_short_by_mean(method, below_ns)
        call = row | flags << states.FLAGS_SHIFT | level << states.SCHEDULED_SHIFT
        if not short or flags & states.TOGETHER:
            call |= _LONG
        slot = self._book.stage(
            pending, account.reference, caller.reference, call, now_ns, expected_ns, body
        )
        if self._stamps:
            self._arrivals.reserve(account.row, row, slot)
        if slot < 0:
            self._arrivals.refused_without_slot(account.row)
            self._refuse_for_room(pending, level, place, message)
            return
        if q[self._rates]:
            self._throttle.name(slot, row, user, deadline_ns, pending.batch, now_ns)
        self._enqueuer.staged.append((slot, place))
        if pending.connection:
            pending.connection.calls.add(slot)

    def _is_short_by_mean(self, method: int, below_ns: int) -> bool:
        """Whether calls of a method with words at `method` take short, but for those that are
        interrupted: where long ones keep the processors busy, many are."""
        q = self._q
        return q[method + _EXPECTED] > 0 and 0 < q[method + _MEAN] * MEANS <= below_ns

    def send_undecoded(self, group: int) -> None:
        """Calls of messages that a handler decodes go to `group` from now on."""
        self.places.bases[self.undecoded] = group << GROUP_SHIFT

    def _refuse_for_room(
        self, pending: PendingCall, level: int, place: int, message: bytes
    ) -> None:
        rule = "limits.segment-payload-bytes" if self._book.has_free else "callqueue.total-capacity"
        error = refusals.no_room(rule, self._enqueuer.drain.of(place).retry_after_ms())
        self._enqueuer.refuser.no_room(pending, level, error, message)

    def _asked_ns(self, asked_ms: float, method_ns: int) -> int:
        """The shorter of what the caller and the method allow, within the server's limit."""
        most_ns = self.limits.max_timeout_ns
        return min(int(asked_ms * 1e6), method_ns or most_ns, most_ns)


def with_meta(
    pending: PendingCall, meta: Meta | None, http: HttpMeta, body: bytes, user: str
) -> bytes:
    """Context, trace, attempt and user in front of the body, if there are any to be told."""
    context = (meta and meta.caller_context) or http.context
    trace = (meta and meta.traceparent) or http.traceparent
    attempt, chain = (meta.attempt, meta.chain) if meta else (None, ())
    if context is None and trace is None and attempt is None and not user and not chain:
        return body
    packed = _encode_meta(
        CarriedMeta(
            caller_context=context,
            attempt=attempt,
            traceparent=trace,
            chain=chain,
            user=user or None,
        )
    )
    if len(packed) >= 1 << 8 * states.META_LENGTH:
        return with_meta(pending, None, NO_META, body, user)
    pending.flags |= states.WITH_META
    return len(packed).to_bytes(states.META_LENGTH, "big") + packed + body
