"""The error objects that a reader answers by itself, as JSON bytes."""

from __future__ import annotations

from typing import Any

from ...scheduling.backoff import Refusal
from ...shm.offers import LEVEL_FULL, PRINCIPAL_FULL
from ...shm.states import Status
from ...workers import errors
from ...workers.errors import error_object

EXPIRED = errors.deadline_exceeded(0)
CANCELLED = error_object(errors.CANCELLED)
SHUTTING_DOWN = error_object(errors.SHUTTING_DOWN)
ANSWER_TOO_LARGE = error_object(errors.TOO_LARGE, "Too large: the answer")

FAILOVER_RULE = "callqueue.overflow.trigger.failover"
_REASONS = {LEVEL_FULL: "queue_full", PRINCIPAL_FULL: "too_many_in_flight"}


def busy(verdict: int, level: int, retry_after_ms: int) -> bytes:
    """-32005 for a call that `enqueue` refused with `verdict`."""
    return error_object(
        errors.LIMIT_EXCEEDED,
        reason=_REASONS[verdict],
        level=level,
        retry_after_ms=retry_after_ms,
    )


def throttled(level: int, retry_after_ms: int | None) -> bytes:
    """-32005 for a call whose limiter opens behind its deadline; None: it is blocked for good."""
    after: dict[str, Any] = {} if retry_after_ms is None else {"retry_after_ms": retry_after_ms}
    return error_object(
        errors.LIMIT_EXCEEDED,
        reason="throttled",
        retriable=retry_after_ms is not None,
        level=level,
        **after,
    )


def by_rule(found: Refusal, level: int) -> bytes:
    """-32005 for a call that was refused before it was offered to the queue."""
    return error_object(
        errors.LIMIT_EXCEEDED,
        reason=str(found.reason),
        level=level,
        rule=found.rule,
        retry_after_ms=found.retry_after_ms,
    )


def standby(level: int) -> bytes:
    """-32057: the fail-over form of a refusal."""
    text = "Standby: this server is busy, another one may not be"
    return error_object(errors.STANDBY, text, level=level, rule=FAILOVER_RULE)


def no_room(rule: str, retry_after_ms: int) -> bytes:
    """-32005 for a call that found no page for its payload, or no slot; `rule` is the setting."""
    return error_object(
        errors.LIMIT_EXCEEDED,
        reason="queue_full",
        rule=rule,
        retry_after_ms=retry_after_ms,
    )


def without_body(status: int, idempotent: bool) -> bytes:
    """The error object of an answer word that comes without a body."""
    if status == Status.DIED:
        text = "Handler died: the process that ran this call ended before it answered"
        return error_object(errors.HANDLER_DIED, text, retriable=idempotent)
    if status == Status.EXPIRED:
        return EXPIRED
    if status == Status.TOO_LARGE:
        return ANSWER_TOO_LARGE
    return error_object(
        errors.INTERNAL_ERROR,
        "Internal error: the call ran, and no room was left for its answer",
        reason="no_room_for_answer",
        rule="limits.segment-payload-bytes",
        retriable=idempotent,
    )


def nested(inline: str | None) -> bytes:
    """-32005 for a call for which all handlers wait; `inline`: the server whose handler runs it."""
    text = "Limit exceeded: every handler is busy, and one of them waits for this call"
    return error_object(
        errors.LIMIT_EXCEEDED,
        text,
        reason="nested",
        retriable=False,
        rule="handlers.nested-calls",
        inline=inline,
    )


def unauthenticated(text: str) -> bytes:
    return error_object(errors.UNAUTHENTICATED, f"Unauthenticated: {text}")
