"""When a reader refuses a call, and in which form: `scheduling.backoff` over the segment.

    response time       the janitor has found that the level backs off (`janitor.level_times`)
    expected wait       what waits at the level will take longer than `callqueue.max-wait-ms`
    level, caller full  the call table says so
    no room             no slot or page is left

    form        the client sees                     its connection
    keep-alive  -32005, come back after a while     stays
    fail-over   -32057, try another server          stays
    disconnect  either                              is closed once its other calls are answered

The rate at which a level drains is at least what its handlers can do by the expected times of their
calls: what an idle server has drained of late says nothing about what it could.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...scheduling import admission, backoff
from ...scheduling.backoff import LevelLoad, Reason, Refusal
from ...shm.columns import Counter
from ...shm.layout import CLASSES, GROUP_SHIFT, LEVEL, SLOT, WORD, word_of
from ...shm.rings import SLOT_WORDS
from ...shm.shared import Shared
from ...shm.top_callers import MAX_WAIT, PRINCIPAL_FULL, QUEUE_FULL, RESPONSE_TIME, THROTTLED
from . import refusals
from .caller_counts import CallerCounts
from .drain_rate import DrainRates
from .exchange import PendingCall
from .replies import Replies

MS = 1_000_000
_LEVEL_WORDS, _BACKS_OFF = LEVEL.itemsize // WORD, word_of(LEVEL, "backs_off")
_EXPECTED = word_of(SLOT, "reserved")
_REASONS = {
    Counter.REFUSED_QUEUE_FULL: QUEUE_FULL,
    Counter.REFUSED_RESPONSE_TIME: RESPONSE_TIME,
    Counter.REFUSED_MAX_WAIT: MAX_WAIT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOffRules:
    """What refusals need to know of the settings. Sweeps are counted from `started_ns`."""

    by_response_time: bool = False
    max_wait_ms: int | None = None
    period_ms: int = 5000
    started_ns: int = 0
    failover: bool = False
    disconnects: bool = False
    charge_refused: bool = True

    @property
    def looks_at_levels(self) -> bool:
        """Whether a call is looked at before it is offered to the queue."""
        return self.by_response_time or self.max_wait_ms is not None


class Gate:
    """Whether a call is offered to the queue of its group at all."""

    def __init__(self, shared: Shared, rules: BackOffRules, drain: DrainRates) -> None:
        self._q, self._rules, self._drain = shared.segment.q, rules, drain
        self._table, self._shared = shared.table, shared
        layout = shared.segment.layout
        self._slow0 = layout.level_words // WORD + _BACKS_OFF
        self._waiting0 = layout.level_waiting // WORD
        self._offered = [0] * shared.geometry.ring_numbers

    def begin(self) -> None:
        """A pass: nothing of it was offered yet."""
        self._offered = [0] * len(self._offered)
        with self._table.queue_lock:
            self._table.load_policy()

    def look(self, slot: int, place: int, now_ns: int) -> Refusal | None:
        """Why the call that is staged in `slot`, for the ring of number `place`, is refused; None:
        it is to be offered."""
        if self._table.is_lane(place):
            return None  # lanes have no mean of their own, and do not wait for the levels
        weights, group = self._table.policy.weights, place >> GROUP_SHIFT
        base = group << GROUP_SHIFT
        level = min(place - base, len(weights) - 1)
        slow = self._rules.by_response_time and self._q[self._slow0 + level * _LEVEL_WORDS]
        ahead, rate, most_ms = 0, 0.0, self._rules.max_wait_ms
        if most_ms is not None and not slow:
            sizes = [self._waits_at(base + other) for other in range(len(weights))]
            ahead = max(0, sizes[level] - self._table.count_idle(group))
            total = self._rate(slot, group, now_ns)
            rate = backoff.level_rate(total, weights, sizes, level) if total else 0.0
            if not rate:  # nothing is known yet
                most_ms = None
        load = LevelLoad(ahead=ahead, has_room=True, rate=rate, responds_slowly=bool(slow))
        refusal = backoff.refusal(load, most_ms, self._next_sweep_ms(now_ns))
        if refusal is None:
            self._offered[base + level] += 1
        return refusal

    def _waits_at(self, level: int) -> int:
        at = self._waiting0 + level * CLASSES
        return self._q[at] + self._q[at + 1] + self._offered[level]

    def _rate(self, slot: int, group: int, now_ns: int) -> float:
        """Calls per second that the group's handlers take, or could; 0 if nothing is known."""
        own = self._table.slot0 + slot * SLOT_WORDS
        drain = self._drain.of(group << GROUP_SHIFT)
        took_ns = drain.mean_ns(now_ns) or self._q[own + _EXPECTED]
        could = self._shared.working_of(group) * 1e9 / took_ns if took_ns else 0.0
        return max(drain.per_second, could)

    def _next_sweep_ms(self, now_ns: int) -> int:
        """When response times are looked at again."""
        period_ns = self._rules.period_ms * MS
        left_ns = period_ns - (now_ns - self._rules.started_ns) % period_ns
        return max(backoff.LEAST_RETRY_MS, -(-left_ns // MS))


class Refuser:
    """Says no: counts it, answers in the form that `rules` want, and closes where they do."""

    def __init__(
        self,
        counts: memoryview,
        replies: Replies,
        rules: BackOffRules,
        levels: Callable[[], int],
        counted: CallerCounts,
    ) -> None:
        self._counts, self._replies, self.rules, self._levels = counts, replies, rules, levels
        self._counted = counted

    def by_rule(self, pending: PendingCall, level: int, found: Refusal, message: bytes) -> None:
        """The gate has refused it."""
        slow = found.reason is Reason.RESPONSE_TIME
        counter = Counter.REFUSED_RESPONSE_TIME if slow else Counter.REFUSED_MAX_WAIT
        error = refusals.by_rule(found, level)
        form = admission.backoff_form if slow else self._overflow_form(level)
        self._refuse(pending, counter, error, form(self.rules.failover), message, level)

    def level_full(self, pending: PendingCall, level: int, error: bytes, message: bytes) -> None:
        """No room at its level or below."""
        form = self._overflow_form(level)(self.rules.failover)
        self._refuse(pending, Counter.REFUSED_QUEUE_FULL, error, form, message, level)

    def no_room(self, pending: PendingCall, level: int, error: bytes, message: bytes) -> None:
        """No slot, or no page for its request."""
        self.level_full(pending, level, error, message)

    def throttled(self, pending: PendingCall, error: bytes, message: bytes) -> None:
        """Its limiter opens too late: another server would be no help."""
        self._counts[Counter.THROTTLED] += 1
        self._counted.refused(pending, THROTTLED)
        self._replies.refuse(pending, error, message, busy=True)

    def principal_full(self, pending: PendingCall, error: bytes, message: bytes) -> None:
        """The caller holds its whole share: another server would be no help."""
        self._counts[Counter.REFUSED_PRINCIPAL] += 1
        self._counted.refused(pending, PRINCIPAL_FULL)
        self._replies.refuse(pending, error, message, busy=True)

    def _overflow_form(self, level: int) -> Callable[[bool], admission.Admission]:
        last = self._levels() - 1
        return lambda failover: admission.overflow_form(min(level, last), last, failover)

    def _refuse(
        self,
        pending: PendingCall,
        counter: Counter,
        error: bytes,
        form: admission.Admission,
        message: bytes,
        level: int,
    ) -> None:
        connection = pending.connection
        self._counts[counter] += 1
        self._counted.refused(pending, _REASONS[counter])
        if form is admission.Admission.FAILOVER:
            self._counts[Counter.FAILED_OVER] += 1
            error = refusals.standby(level)
        self._replies.refuse(pending, error, message, busy=True)
        if self.rules.disconnects and form.closes_connection and connection is not None:
            self._counts[Counter.CLOSED_BACKOFF] += 1
            connection.finish()
