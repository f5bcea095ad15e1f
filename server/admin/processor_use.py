"""Whether the machine is short of processors for a server: from the kernel's figures.

    starved   of the time that calls take, what their handlers waited for a processor:
              waited / max(ran + waited, busy), the first two from /proc/PID/schedstat, `busy` as
              handlers count it, a call's sleep included
    outside   what other processes took, and what the hypervisor gave to other machines (steal), of
              the time of all processors: what was not idle (/proc/stat) less what this server's
              processes took (/proc/PID/stat)
    idle      of the same

Processors are those that this process may use. A process that a handler has started counts as an
other one. Where the kernel does not tell (no CONFIG_SCHED_INFO), nobody is ever starved.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...scheduling.alarms import PLENTY, Shortage
from ...shm.processes import ROLES
from .recent import busy_times

if TYPE_CHECKING:
    from ..port import Port

EVERY_NS, WINDOW_NS = 450_000_000, 1_000_000_000
STALE_NS = 3 * WINDOW_NS  # what was read before a pause is of another time
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
IDLE, IOWAIT = 3, 4  # of the figures of a processor in /proc/stat
MOST_FIGURES = 8  # those behind are parts of those before
UTIME, STIME = 10, 11  # of the numbers behind name and state in /proc/PID/stat

Pids = Mapping[int, int]  # ns by pid


@dataclass(frozen=True, slots=True)
class _Sample:
    """`ran`, `waited`, `busy`: of handlers; `taken`: of all processes of this server, threads
    too."""

    at_ns: int
    ran: Pids
    waited: Pids
    busy: Pids
    taken: Pids
    total_ns: int
    idle_ns: int


class ProcessorUse:
    """Of all ports of one server. `proc` is where the kernel's figures are."""

    def __init__(self, ports: Sequence[Port], proc: Path = Path("/proc")) -> None:
        self._ports, self._proc = ports, proc
        self._samples: deque[_Sample] = deque()

    def look(self, now_ns: int) -> None:
        """Takes a sample, unless the last one is of just now."""
        samples = self._samples
        if samples and now_ns - samples[-1].at_ns < EVERY_NS:
            return
        if samples and now_ns - samples[-1].at_ns > STALE_NS:
            samples.clear()
        samples.append(self._sample(now_ns))
        while len(samples) > 2 and now_ns - samples[1].at_ns >= WINDOW_NS:
            samples.popleft()

    def shortage(self, port: Port, handlers: range) -> Shortage:
        """In the last second, for these handlers of `port`."""
        if len(self._samples) < 2:
            return PLENTY
        then, now = self._samples[0], self._samples[-1]
        pids = [port.shared.row("handler", number)["pid"] for number in handlers]
        ran, waited = _gained(then.ran, now.ran, pids), _gained(then.waited, now.waited, pids)
        passed = max(ran + waited, _gained(then.busy, now.busy, pids))
        total_ns, idle_ns = now.total_ns - then.total_ns, now.idle_ns - then.idle_ns
        if total_ns <= 0 or passed <= 0:
            return PLENTY
        taken = _gained(then.taken, now.taken, now.taken)
        outside = max(0.0, total_ns - idle_ns - taken) / total_ns
        return Shortage(starved=waited / passed, outside=outside, idle=max(0.0, idle_ns / total_ns))

    def _sample(self, now_ns: int) -> _Sample:
        ran, waited, busy, taken = (dict[int, int]() for _ in range(4))
        for port in self._ports:
            busy_ns = busy_times(port.shared, now_ns).tolist()
            for role, number, pid in _processes(port):
                if role == "handler" and (figures := self._figures(f"{pid}/schedstat")):
                    ran[pid], waited[pid] = figures[:2]
                    busy[pid] = busy_ns[number]
                if figures := self._figures(f"{pid}/stat"):
                    taken[pid] = (figures[UTIME] + figures[STIME]) * TICK_NS
        return _Sample(now_ns, ran, waited, busy, taken, *self._of_machine())

    def _of_machine(self) -> tuple[int, int]:
        """(all time, idle time) of the processors that we may use, in ns since the start."""
        total = idle = 0
        names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        for line in self._read("stat").splitlines():
            name, *figures = line.split()
            if name in names:
                ticks = list(map(int, figures[:MOST_FIGURES]))
                total += sum(ticks)
                idle += ticks[IDLE] + ticks[IOWAIT]
        return total * TICK_NS, idle * TICK_NS

    def _figures(self, name: str) -> list[int]:
        """The numbers of a file of a process, behind its name; none if there is no such process."""
        text = self._read(name).rpartition(")")[2].split()
        return [int(word) for word in text if word.lstrip("-").isdigit()]

    def _read(self, name: str) -> str:
        try:
            return (self._proc / name).read_text()
        except OSError:
            return ""


def _processes(port: Port) -> Iterator[tuple[str, int, int]]:
    """(role, number, pid) of those that are there."""
    g = port.shared.geometry
    counts = {"reader": g.readers, "handler": g.handlers}
    for role in ROLES:
        for number in range(counts.get(role, 1)):
            if pid := port.shared.row(role, number)["pid"]:
                yield role, number, pid


def _gained(then: Pids, now: Pids, pids: Sequence[int] | Pids) -> int:
    """Of the processes that were there all the time."""
    return sum(max(0, now[pid] - then[pid]) for pid in pids if pid in now and pid in then)
