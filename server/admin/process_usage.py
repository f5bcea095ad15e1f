"""Processor time and memory of the daemon's processes, from the kernel.

A place keeps the time of the processes that had it before, as it was at the last look: so the sum
grows when a process is replaced, and starts anew only with the admin process itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from ...shm.processes import ROLES
from . import metrics_table as t
from .openmetrics import Metric

if TYPE_CHECKING:
    from ..port import Port

_Key = tuple[int, str, int]  # port, role, number


@dataclass(slots=True)
class _Place:
    """`before_s` is the time of earlier processes, `now_s` that of `process`."""

    process: psutil.Process
    before_s: float = 0.0
    now_s: float = 0.0
    resident_bytes: int = 0


class ProcessUsage:
    """`look` now and then, `samples` for a scrape."""

    def __init__(self) -> None:
        self._places: dict[_Key, _Place] = {}

    def look(self, port: Port) -> None:
        """At every process of `port` that lives."""
        g = port.shared.geometry
        counts = {"reader": g.readers, "handler": g.handlers}
        for role in ROLES:
            for number in range(counts.get(role, 1)):
                pid = port.shared.row(role, number)["pid"]
                if pid:
                    with contextlib.suppress(psutil.Error):
                        self._look_at((port.number, role, number), pid)

    def _look_at(self, key: _Key, pid: int) -> None:
        place = self._places.get(key)
        if place is None or place.process.pid != pid:
            before_s = place.before_s + place.now_s if place else 0.0
            place = self._places[key] = _Place(psutil.Process(pid), before_s)
        with place.process.oneshot():
            times = place.process.cpu_times()
            place.now_s = times.user + times.system
            place.resident_bytes = place.process.memory_info().rss

    def samples(self, port: Port) -> Iterator[tuple[Metric, tuple[object, ...], float]]:
        """Of the places of `port`."""
        for (number, role, index), place in self._places.items():
            if number == port.number:
                labels = (number, role, index)
                yield t.CPU, labels, round(place.before_s + place.now_s, 3)
                yield t.RSS, labels, place.resident_bytes
