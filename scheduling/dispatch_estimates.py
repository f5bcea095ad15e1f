"""What a call will probably use: averages of a method, for reservations before it has run.

    average' = average + (used - average) / 8        the first call's own use to begin with

A method that never ran has no average: it goes one call at a time until its first call is settled,
so that a flood of a new method cannot overdraw by more than one call.
"""

from __future__ import annotations

_WEIGHT = 8


def next_average(average: int | None, used: int) -> int:
    """The average after a call that used so much; whole units, rounded to the nearest."""
    if average is None:
        return used
    return average + (2 * (used - average) + _WEIGHT) // (2 * _WEIGHT)


class MethodEstimate:
    """The averages of one method, and its calls taken and not settled yet."""

    __slots__ = ("answer_bytes", "handler_us", "running")

    def __init__(self) -> None:
        self.handler_us: int | None = None
        self.answer_bytes: int | None = None
        self.running = 0

    def first_call_runs(self) -> bool:
        """Whether another call has to wait for the first one."""
        return self.handler_us is None and self.running > 0

    def settled(self, handler_us: int, answer_bytes: int) -> None:
        """Learns from a call that ended."""
        self.handler_us = next_average(self.handler_us, handler_us)
        self.answer_bytes = next_average(self.answer_bytes, answer_bytes)
