"""What settings must be to each other: list lengths, capacities, limits within limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .declaration import ConfigError
from .resolve import OwnValues, PortValues, Settled

Show = Callable[[str], str]

# Keys of Pulsar's, the only value that they can have here, and why.
ONE_VALUE = (
    (
        "dispatch-throttling-on-non-backlog-consumer-enabled",
        True,
        "cannot be off: here callers without a backlog are always limited; leave the key out, or"
        " give those callers a rate of their own",
    ),
    (
        "dispatch-throttling-for-filtered-entries-enabled",
        False,
        "cannot be on: here calls that are dropped while they wait are never charged; leave the key"
        " out",
    ),
    (
        "dispatcher-max-read-batch-size",
        0,
        "has no meaning here: there are no bulk reads, a claim knows what it takes and charges it"
        " before; leave the key out",
    ),
)


def check_own(own: OwnValues) -> None:
    """ConfigError with both keys of the first pair that does not fit."""
    _not_above(own, "limits.default-timeout-ms", "limits.max-timeout-ms")
    for nested in ("connection", "principal", "reader"):
        _not_above(own, "limits.max-message-bytes", f"limits.max-unfinished-bytes-per-{nested}")
    if 2 * own["limits.max-message-bytes"] > own["limits.segment-payload-bytes"]:
        raise _error(
            own.settled,
            "limits.segment-payload-bytes",
            "must hold the longest request and the longest answer at a time: at least twice"
            f" limits.max-message-bytes = {own['limits.max-message-bytes']}",
        )
    for key, only, why in ONE_VALUE:
        if own[f"throttle.{key}"] != only:
            raise _error(own.settled, f"throttle.{key}", why)
    precise, batches = "precise-dispatcher-flow-control", "on-batch-message-enabled"
    if own[f"throttle.{precise}"] and own[f"throttle.dispatch-throttling-{batches}"]:
        raise _error(
            own.settled,
            f"throttle.{precise}",
            f"excludes throttle.dispatch-throttling-{batches}: turn one of them off",
        )


def _not_above(own: OwnValues, lesser: str, greater: str) -> None:
    if own[lesser] > own[greater]:
        raise _error(own.settled, lesser, f"must not be above {greater} = {own[greater]}")


def check_port(port: PortValues) -> None:
    """ConfigError with the key of the list that does not fit the levels, or of the capacity."""
    levels: int = port["scheduler.priority.levels"]
    one_less = ("decay-scheduler.thresholds", "history-scheduler.thresholds")
    one_each = (
        "callqueue.capacity.weights",
        "faircallqueue.multiplexer.weights",
        "decay-scheduler.backoff.responsetime.thresholds",
    )
    for key in (*one_less, *one_each):
        expected = levels - 1 if key in one_less else levels
        if len(port[key]) != expected:
            raise _error(
                port.settled,
                key,
                f"needs {expected} elements for scheduler.priority.levels = {levels},"
                f" not {len(port[key])}",
            )
    _check_capacity(port)


def _check_capacity(port: PortValues) -> None:
    least = sum(port["callqueue.capacity.weights"])
    if port["callqueue.impl"] == "FairCallQueue" and port["callqueue.total-capacity"] < least:
        raise _error(
            port.settled,
            "callqueue.total-capacity",
            f"leaves a level without room: at least {least}, the sum of the capacity weights",
        )


def _error(settled: dict[str, Settled], key: str, what: str) -> ConfigError:
    found = settled[key]
    return ConfigError(f"{found.entry or _by_default(key, found)}: {what}")


def _by_default(key: str, found: Settled) -> str:
    value: Any = found.value
    return f"{key} = {value} ({found.origin})"
