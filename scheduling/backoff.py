"""When a call is refused, and when it is worth trying again: arithmetic on counts and rates.

A level refuses for one of three reasons, looked at in this order:

    response_time   the scheduler says so (`response_time.py`)
    queue_full      no room at the level or below it
    queue_full      the expected wait at the level exceeds `max_wait_ms` (rule "max-wait-ms")

    expected wait = calls ahead / drain rate of the level
    drain rate    = total rate * draws that the level gets / draws of a full turn
    retry after   = the time in which the calls over the mark leave, within [least, most]

All rates are calls per second. A queue that does not drain has no expected wait (infinity), and
its clients are sent away for the longest time. A level gets its own draws and those of empty levels
that fall to it: the first busy level gets them all, or with `scan="cursor"` the next busy one each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from .queues import Scan

LEAST_RETRY_MS = 10
MOST_RETRY_MS = 10_000


class Reason(StrEnum):
    """Why a call is refused, as the answer's `data.reason` says it."""

    QUEUE_FULL = "queue_full"
    RESPONSE_TIME = "response_time"


@dataclass(frozen=True)
class Refusal:
    """Why, by which setting, and after which time the client should try again."""

    reason: Reason
    rule: str
    retry_after_ms: int


@dataclass(frozen=True, kw_only=True)
class LevelLoad:
    """What the decision looks at, for the level of the call."""

    ahead: int  # calls that will be served before it, at its level
    has_room: bool  # at its level or below it
    rate: float  # calls per second that leave its level
    responds_slowly: bool = False


def smoothed_rate(rate: float, drained: int, elapsed_ns: int, half_life_ns: int) -> float:
    """The drain rate after another `elapsed_ns` > 0, old observations halved per half-life."""
    kept = math.exp2(-elapsed_ns / half_life_ns)
    return kept * rate + (1.0 - kept) * drained * 1e9 / elapsed_ns


def level_rate(
    total_rate: float,
    weights: Sequence[int],
    sizes: Sequence[int],
    level: int,
    scan: Scan = "top",
) -> float:
    """What of `total_rate` falls to `level` while it has a call, by the multiplexer's draws."""
    levels = len(weights)
    busy = [size > 0 or other == level for other, size in enumerate(sizes)]
    draws = 0
    for drawn, weight in enumerate(weights):
        start = drawn if busy[drawn] or scan == "cursor" else 0
        served = next(at % levels for at in range(start, start + levels) if busy[at % levels])
        draws += weight * (served == level)
    return total_rate * draws / sum(weights) if any(weights) else total_rate


def expected_wait_ms(ahead: int, rate: float) -> float:
    """How long a call waits behind `ahead` others; infinity if nothing drains."""
    if ahead <= 0:
        return 0.0
    return ahead * 1000.0 / rate if rate > 0 else math.inf


def retry_after_ms(
    excess: int, rate: float, least_ms: int = LEAST_RETRY_MS, most_ms: int = MOST_RETRY_MS
) -> int:
    """When the `excess` calls over the mark will have left, rounded up, within the bounds."""
    return math.ceil(min(max(expected_wait_ms(excess, rate), least_ms), most_ms))


def refusal(load: LevelLoad, max_wait_ms: int | None, slow_retry_ms: int) -> Refusal | None:
    """Whether a call is refused. `slow_retry_ms`: when response times are looked at again."""
    if load.responds_slowly:
        rule = "decay-scheduler.backoff.responsetime.thresholds"
        return Refusal(Reason.RESPONSE_TIME, rule, slow_retry_ms)
    if not load.has_room:
        after = retry_after_ms(1, load.rate)
        return Refusal(Reason.QUEUE_FULL, "callqueue.capacity", after)
    wait_ms = expected_wait_ms(load.ahead, load.rate)
    if max_wait_ms is not None and wait_ms > max_wait_ms:
        excess = load.ahead - math.floor(max_wait_ms * load.rate / 1000.0)
        after = retry_after_ms(excess, load.rate)
        return Refusal(Reason.QUEUE_FULL, "callqueue.max-wait-ms", after)
    return None
