"""Units of time and how Hadoop converts between them (`java.util.concurrent.TimeUnit`).

A conversion truncates towards zero and stops at the ends of the 64-bit range.
"""

from __future__ import annotations

from enum import IntEnum

from .saturation import clamp64


class TimeUnit(IntEnum):
    """A unit of time; its value is its length in nanoseconds."""

    NANOSECONDS = 1
    MICROSECONDS = 1_000
    MILLISECONDS = 1_000_000
    SECONDS = 1_000_000_000
    MINUTES = 60 * SECONDS
    HOURS = 60 * MINUTES
    DAYS = 24 * HOURS

    def convert(self, amount: int, unit: TimeUnit) -> int:
        """`amount` of `unit`, in this unit."""
        whole = abs(amount) * unit // self
        return clamp64(whole if amount >= 0 else -whole)


def metrics_time_unit(text: str | None) -> TimeUnit:
    """The unit that `rpc.metrics.timeunit` names; milliseconds for anything else, as Hadoop."""
    return TimeUnit.__members__.get(text or "", TimeUnit.MILLISECONDS)
