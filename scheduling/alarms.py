"""When a service is congested: rules on figures of the last second, with hysteresis.

    wait        99 of 100 calls claimed waited longer, or who comes now would wait longer
    refusals    calls refused a second, for want of room
    latency     99 of 100 calls of level 0 took longer, while calls wait for a handler
    share       of the handlers' time, one user's, while calls wait for a handler and others call
    processors  `wait` or `latency` only because the machine is short of processors

    level = figure / threshold      0 where the rule is off
    raised    level >= 1 for `raise_after_ns`: at the first look, at the last, and of those between
              at one of any two that follow each other, for a queue runs empty now and then
    cleared   level < CLEARS at every look for `clear_after_ns`; in between nothing changes

*Calls wait for a handler*: more of them than there are handlers, those not counted that a limit
holds. Calls that are refused by a limit are none of these refusals: a limit is what an operator
sets to end an alarm.

*Short of processors*: the machine's processors have nothing left, others than this server take
much of them, and its handlers wait for one for a part, `starved`, of the time that calls take. Then
times would be (1 - starved) of what they are without the others: `wait` and `latency` go by that,
and where they are not over their thresholds by it, `processors` is, by what they are. A user who
takes as much as rule `share` says is named whatever the processors do.

Source: HADOOP-9640, whose purpose is that congestion is noticed early and the suspicious user or
job named; Hadoop itself has no alarm.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

CLEARS = 0.5
LEAST_OUTSIDE = 0.25
MOST_IDLE = 0.1


class Rule(enum.StrEnum):
    """What an alarm is raised for."""

    WAIT = "wait"
    REFUSALS = "refusals"
    LATENCY = "latency"
    SHARE = "share"
    PROCESSORS = "processors"


class Change(enum.Enum):
    """What a look has changed."""

    RAISED = enum.auto()
    CLEARED = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """A figure of 0 turns its rule off. Times in ns; `share` and `starved` 0 to 1."""

    wait_ns: float
    refused_per_s: float
    latency_ns: float
    share: float
    starved: float = 0.0
    raise_after_ns: int
    clear_after_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Of processors, in the last second, 0 to 1: of the time that calls took, what their handlers
    waited for one; of all processors' time, what others than this server took, and what nobody
    did."""

    starved: float = 0.0
    outside: float = 0.0
    idle: float = 1.0


PLENTY = Shortage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a group of handlers was in the last second. `latency_ns` is that of level 0; `share` that
    of the user who takes most of the handlers' time, among `users` who call."""

    waiting: int
    handlers: int
    wait_ns: float
    refused_per_s: float
    latency_ns: float
    share: float
    users: int
    shortage: Shortage = PLENTY


def is_saturated(waiting: int, handlers: int) -> bool:
    """Whether calls wait for a handler."""
    return waiting > handlers


def expected_wait_ns(waiting: int, claimed_per_s: float, since_claim_ns: int) -> float:
    """How long who comes now would wait behind all others; where none is claimed, as long at
    least as that has been so."""
    if not waiting:
        return 0.0
    return waiting * 1e9 / claimed_per_s if claimed_per_s > 0 else float(since_claim_ns)


def is_short(shortage: Shortage, thresholds: Thresholds) -> bool:
    """Whether the machine is short of processors, and not by what this server does alone."""
    return (
        0 < thresholds.starved <= shortage.starved
        and shortage.outside >= LEAST_OUTSIDE
        and shortage.idle <= MOST_IDLE
    )


def levels_of(reading: Reading, thresholds: Thresholds) -> Mapping[Rule, float]:
    """Each rule's level."""
    waits = is_saturated(reading.waiting, reading.handlers)
    wait = _ratio(reading.wait_ns, thresholds.wait_ns)
    latency = _ratio(reading.latency_ns, thresholds.latency_ns) if waits else 0.0
    share = _ratio(reading.share, thresholds.share) if waits and reading.users > 1 else 0.0
    processors = 0.0
    if share < 1 and is_short(reading.shortage, thresholds):
        worst, left = max(wait, latency), 1 - reading.shortage.starved
        wait, latency = wait * left, latency * left
        processors = worst if max(wait, latency) < 1 else 0.0
    return {
        Rule.WAIT: wait,
        Rule.REFUSALS: _ratio(reading.refused_per_s, thresholds.refused_per_s),
        Rule.LATENCY: latency,
        Rule.SHARE: share,
        Rule.PROCESSORS: processors,
    }


def _ratio(figure: float, threshold: float) -> float:
    return figure / threshold if threshold > 0 else 0.0


class Watch:
    """One rule of one port. `since_ns`: since when it is over its threshold, or its alarm active;
    None: neither."""

    def __init__(self) -> None:
        self.active = False
        self.since_ns: int | None = None
        self._missed = False
        self._quiet_ns: int | None = None

    def look(self, now_ns: int, level: float, thresholds: Thresholds) -> Change | None:
        """At one moment; what that has changed."""
        if self.active:
            return self._look_for_quiet(now_ns, level, thresholds.clear_after_ns)
        missed, self._missed = self._missed, level < 1
        if self._missed:
            if missed:
                self.since_ns = None
            return None
        if self.since_ns is None:
            self.since_ns = now_ns
        if now_ns - self.since_ns < thresholds.raise_after_ns:
            return None
        self.active, self._quiet_ns = True, None
        return Change.RAISED

    def _look_for_quiet(self, now_ns: int, level: float, clear_after_ns: int) -> Change | None:
        if level >= CLEARS:
            self._quiet_ns = None
            return None
        if self._quiet_ns is None:
            self._quiet_ns = now_ns
        if now_ns - self._quiet_ns < clear_after_ns:
            return None
        self.active, self.since_ns = False, None
        return Change.CLEARED
