"""Staged calls are offered to the queue here, those of a whole pass under one lock.

What the queue refuses is answered "limit exceeded" with the time after which to come back, as is
at once whose limiter opens behind its deadline, or holds as many calls as it may. With
back-off off, the connection is paused instead until there is room; a connection that carries the
calls of many users (a proxy's) always gets answers, for one user's full queue must not stop all.
Whether back-off is on is the policy's word; a call that was blocked before stays so until it has
room, whatever became of the policy meanwhile.

The exchange of a notification ends here as well, when the queue has taken it: until then it can
pause its connection like any other call.
"""

from __future__ import annotations

from ...shm.offers import ACCEPTED, PRINCIPAL_FULL, THROTTLED, TOO_MANY_HELD
from ...shm.shared import Shared
from . import refusals
from .arrivals import Arrivals
from .backoff import BackOffRules, Gate, Refuser
from .callbook import CallBook
from .caller_counts import CallerCounts
from .drain_rate import DrainRates
from .exchange import PendingCall
from .replies import Replies

Staged = list[tuple[int, int]]  # (slot, number of the ring: its level in its group)


class Enqueuer:
    """`staged` are in order of arrival; `blocked` are those that wait for room. `silent`: some of
    the staged ones are notifications."""

    def __init__(
        self,
        shared: Shared,
        counts: memoryview,
        book: CallBook,
        replies: Replies,
        arrivals: Arrivals,
        rules: BackOffRules,
        counted: CallerCounts,
    ) -> None:
        self.staged: Staged = []
        self.silent = False
        self.blocked: Staged = []
        self.drain = DrainRates(shared)
        self._table, self._doorbells = shared.table, shared.doorbells
        self._book, self._replies, self._arrivals = book, replies, arrivals
        self.refuser = Refuser(counts, replies, rules, lambda: self._table.policy.levels, counted)
        self._shared = shared
        self.configure(rules)
        self._verdicts: list[int] = []

    def configure(self, rules: BackOffRules) -> None:
        """Refuse by these rules from now on."""
        self.refuser.rules = rules
        self._gate = Gate(self._shared, rules, self.drain) if rules.looks_at_levels else None

    def flush(self, now_ns: int) -> None:
        """Offer everything, and wake the handlers that it needs."""
        if not self.staged and not self.blocked:
            return
        offered, throttle = self.staged, self._book.throttle
        limited: set[int] | None = throttle.limited
        if self.blocked:
            limited = None
            for slot, _ in self.blocked:
                self._book.use_rows(slot, now_ns)
            offered = self.blocked + self.staged
        self.staged, self.blocked = [], []
        if self._gate and self._table.policy.backoff:
            offered = self._let_in(self._gate, offered, now_ns)
        if self._arrivals.stamps:
            for slot, _ in offered:
                self._arrivals.offered(slot, now_ns)
        verdicts = self._verdicts
        if len(verdicts) < len(offered):
            verdicts.extend([ACCEPTED] * (len(offered) - len(verdicts)))
        wake = self._table.enqueue(offered, verdicts, now_ns, limited)
        throttle.offered()
        if wake:
            self._doorbells.ring_handlers(wake)
        self.drain.observe(now_ns)
        if limited is not None and not self.silent and not any(verdicts[: len(offered)]):
            return  # all are accepted, and none was blocked or is a notification
        calls, self.silent = self._book.calls, False
        for (slot, level), verdict in zip(offered, verdicts, strict=False):
            pending = calls[slot]
            if verdict != ACCEPTED:
                self._not_accepted(slot, level, pending, verdict, now_ns)
            elif pending.blocked or pending.id is None:
                self._accepted(slot, pending)

    def take_back(self, slots: set[int]) -> None:
        """Staged or blocked calls are not to be offered any more, and never were for anybody."""
        self.staged = [call for call in self.staged if call[0] not in slots]
        self.blocked = [call for call in self.blocked if call[0] not in slots]
        for slot in slots:
            self._resume(self._book.unstage(slot))

    def _let_in(self, gate: Gate, offered: Staged, now_ns: int) -> Staged:
        """Refuse what its level's response times or its expected wait forbid; the rest."""
        gate.begin()
        kept = []
        for slot, level in offered:
            found = gate.look(slot, level, now_ns)
            if found is None:
                kept.append((slot, level))
            else:
                pending, message = self._unstage(slot)
                level = self._table.counts_as(level)
                self.refuser.by_rule(pending, level, found, message)
        return kept

    def _accepted(self, slot: int, pending: PendingCall) -> None:
        """The queue has taken what was blocked, or is answered by nobody."""
        self._resume(pending)
        if pending.id is None and pending.connection:
            pending.connection.calls.discard(slot)
            self._replies.settle(pending, b"")
            pending.connection = None

    def _not_accepted(
        self, slot: int, level: int, pending: PendingCall, verdict: int, now_ns: int
    ) -> None:
        if verdict in (THROTTLED, TOO_MANY_HELD):
            error = self._throttled(slot, level, now_ns)
            pending, message = self._unstage(slot)
            self.refuser.throttled(pending, error, message)
            return
        connection = pending.connection
        blocks = pending.blocked or not self._table.policy.backoff
        if blocks and connection and not connection.claimed:
            self._block(pending)
            self.blocked.append((slot, level))
            return
        pending, message = self._unstage(slot)
        retry_after_ms = self.drain.of(level).retry_after_ms()
        level = self._table.counts_as(level)
        error = refusals.busy(verdict, level, retry_after_ms)
        if verdict == PRINCIPAL_FULL:
            self.refuser.principal_full(pending, error, message)
        else:
            self.refuser.level_full(pending, level, error, message)

    def turned_away(self, slot: int, pending: PendingCall, now_ns: int) -> None:
        """A handler found that a limiter blocks the call in `slot`, and no room to hold it."""
        self._arrivals.refused(slot)
        level = self._book.scheduled_ring(slot)
        error, message = self._throttled(slot, level, now_ns), self._book.message(slot)
        self.refuser.throttled(pending, error, message)

    def _throttled(self, slot: int, level: int, now_ns: int) -> bytes:
        """A limiter of the call opens behind its deadline, or has as many held as it may."""
        after_ms = self._book.throttle.retry_after_ms(slot, now_ns)
        if after_ms == 0:  # it is open, or will be when a call has ended: others go first
            after_ms = self.drain.of(level).retry_after_ms()
        return refusals.throttled(self._table.counts_as(level), after_ms)

    def _unstage(self, slot: int) -> tuple[PendingCall, bytes]:
        """The call in `slot` is refused: it gives its slot back; with its message if undecoded."""
        message = self._book.message(slot)
        self._arrivals.refused(slot)
        pending = self._book.unstage(slot)
        self._resume(pending)
        if pending.connection:
            pending.connection.calls.discard(slot)
        return pending, message

    def _block(self, pending: PendingCall) -> None:
        if not pending.blocked and pending.connection:
            pending.blocked = True
            pending.connection.paused += 1

    def _resume(self, pending: PendingCall) -> None:
        if pending.blocked:
            pending.blocked = False
            if pending.connection:
                pending.connection.paused -= 1
                pending.connection.touch()
