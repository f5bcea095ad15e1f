"""What settings must be to each other: list lengths, capacities, limits within limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .declaration import ConfigError
from .derived import MOST_HANDLERS
from .resolve import ALL_HANDLERS, OwnValues, PortValues, Settled

MOST_GROUPS = 8  # of the layout, for one server

Show = Callable[[str], str]

# Keys of Pulsar's, the only value that they can have here, and why.
ONE_VALUE = (
    (
        "dispatcher-max-read-batch-size",
        0,
        "has no meaning here: there are no bulk reads, a claim knows what it takes and charges it"
        " before; leave the key out",
    ),
)


def check_own(own: OwnValues) -> Iterator[ConfigError]:
    """An error with both keys for each pair that does not fit."""
    yield from _not_above(own, "limits.default-timeout-ms", "limits.max-timeout-ms")
    for nested in ("connection", "principal", "reader"):
        yield from _not_above(
            own, "limits.max-message-bytes", f"limits.max-unfinished-bytes-per-{nested}"
        )
    if 2 * own["limits.max-message-bytes"] > own["limits.segment-payload-bytes"]:
        yield _error(
            own.settled,
            "limits.segment-payload-bytes",
            "must hold the longest request and the longest answer at a time: at least twice"
            f" limits.max-message-bytes = {own['limits.max-message-bytes']}",
        )
    for key, only, why in ONE_VALUE:
        if own[f"throttle.{key}"] != only:
            yield _error(own.settled, f"throttle.{key}", why)
    for address in own["admin.listen"]:
        if not (address.is_unix or address.is_loopback or own["admin.token-file"]):
            yield _error(
                own.settled,
                "admin.listen",
                f"whoever reaches {address} could read the users: set admin.token-file, too, or"
                " listen on 127.0.0.1 or a Unix socket",
            )
    precise, batches = "precise-dispatcher-flow-control", "on-batch-message-enabled"
    if own[f"throttle.{precise}"] and own[f"throttle.dispatch-throttling-{batches}"]:
        yield _error(
            own.settled,
            f"throttle.{precise}",
            f"excludes throttle.dispatch-throttling-{batches}: turn one of them off",
        )


def check_groups(own: OwnValues) -> Iterator[ConfigError]:
    """Errors of groups of handlers: no methods, methods of two, too many of them."""
    taken: dict[str, str] = {}
    for name in own.groups():
        key = f"handlers.{name}.methods"
        patterns: tuple[str, ...] = own[key]
        if not patterns:
            what = f'which methods are to run in [handlers.{name}]? Such as ["vision.*"]'
            yield _error(own.settled, key, what)
        if "*" in patterns and len(patterns) > 1:
            yield _error(own.settled, key, '"*" has all that are left: name no others beside it')
        for pattern in patterns:
            if other := taken.get(pattern):
                yield _error(own.settled, key, f'"{pattern}" is in {other}, too: keep one')
            taken[pattern] = key
    if "*" in taken and (entry := own.settled["handlers.count"].entry):
        yield ConfigError(
            f'{entry}: no method is left for them, for {taken["*"]} has "*": leave one of them out'
        )
    most = MOST_GROUPS if "*" in taken else MOST_GROUPS - 1
    if len(own.groups()) > most:
        listed = ", ".join(own.groups())
        yield ConfigError(f"[handlers.{own.groups()[-1]}]: at most {most} groups: {listed}")
    if own[ALL_HANDLERS] > MOST_HANDLERS - MOST_GROUPS:
        most = MOST_HANDLERS - MOST_GROUPS
        yield ConfigError(f"[handlers]: {own[ALL_HANDLERS]} in all groups, at most {most}")


def _not_above(own: OwnValues, lesser: str, greater: str) -> Iterator[ConfigError]:
    if own[lesser] > own[greater]:
        yield _error(own.settled, lesser, f"must not be above {greater} = {own[greater]}")


def check_port(port: PortValues) -> Iterator[ConfigError]:
    """Errors with the key of each list that does not fit the levels, or of the capacity."""
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
            yield _error(
                port.settled,
                key,
                f"needs {expected} elements for scheduler.priority.levels = {levels},"
                f" not {len(port[key])}",
            )
    yield from _check_capacity(port)


def _check_capacity(port: PortValues) -> Iterator[ConfigError]:
    least = sum(port["callqueue.capacity.weights"])
    if port["callqueue.impl"] == "FairCallQueue" and port["callqueue.total-capacity"] < least:
        yield _error(
            port.settled,
            "callqueue.total-capacity",
            f"leaves a level without room: at least {least}, the sum of the capacity weights",
        )
    for name in port.own.groups():
        key = f"handlers.{name}.capacity"
        if 0 < port.own[key] < least:
            yield _error(
                port.own.settled,
                key,
                f"leaves a level of port {port.port} without room: at least {least}, the sum of the"
                " capacity weights",
            )


def _error(settled: dict[str, Settled], key: str, what: str) -> ConfigError:
    found = settled[key]
    return ConfigError(f"{found.entry or _by_default(key, found)}: {what}")


def _by_default(key: str, found: Settled) -> str:
    value: Any = found.value
    return f"{key} = {value} ({found.origin})"
