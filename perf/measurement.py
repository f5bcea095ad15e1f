"""One operation and its CPU time: the best of several rounds, as others only ever add to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUND_NS = 30_000_000  # how long a round of one measurement lasts, about


@dataclass(frozen=True, slots=True)
class Measurement:
    """`run()` does `count` of what is measured."""

    name: str
    count: int
    run: Callable[[], object]


def best_us(measurement: Measurement, rounds: int) -> float:
    """CPU microseconds per single one, the best of `rounds`."""
    started = time.thread_time_ns()
    measurement.run()
    once_ns = max(1, time.thread_time_ns() - started)
    times = max(1, ROUND_NS // once_ns)
    return min(_round_ns(measurement.run, times) for _ in range(rounds)) / measurement.count / 1e3


def _round_ns(run: Callable[[], object], times: int) -> float:
    started = time.thread_time_ns()
    for _ in range(times):
        run()
    return (time.thread_time_ns() - started) / times
