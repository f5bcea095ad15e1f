"""Signals at random to the children of a daemon, and how long it took to replace them.

A child is signalled through a pidfd, and only if its parent still is the daemon: its number may be
another process's by then. When it was replaced is read from the daemon's log afterwards.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ..server.supervised import Daemon

SIGNALS = {signal.SIGKILL: 60, signal.SIGSTOP: 20, signal.SIGSEGV: 10, signal.SIGABRT: 10}


@dataclass(frozen=True, slots=True)
class Strike:
    """A signal that was sent at `at_s`, seconds since the epoch."""

    at_s: float
    role: str
    number: int
    pid: int
    signal: signal.Signals


class Nemesis:
    """Signals the processes of `places`, (role, number) pairs."""

    def __init__(self, daemon: Daemon, places: Sequence[tuple[str, int]], seed: int) -> None:
        self._daemon, self._places, self._random = daemon, places, random.Random(seed)
        self.strikes: list[Strike] = []

    def strike(self) -> bool:
        """One signal to one process; False if that place had none just then."""
        role, number = self._random.choice(self._places)
        (chosen,) = self._random.choices(list(SIGNALS), list(SIGNALS.values()))
        pid = self._daemon.pid_of(role, number)
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            pidfd = os.pidfd_open(pid) if pid else -1
            if pidfd < 0:
                return False
            try:
                if _parent(pid) != self._daemon.pid:
                    return False
                self.strikes.append(Strike(time.time(), role, number, pid, chosen))
                signal.pidfd_send_signal(pidfd, chosen)
                return True
            finally:
                os.close(pidfd)
        return False

    def pause_s(self, mean_s: float) -> float:
        return self._random.expovariate(1 / mean_s)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def replaced_after_s(
    strikes: Sequence[Strike], log: Iterable[Mapping[str, Any]]
) -> list[tuple[Strike, float]]:
    """How long each struck process was missed: from the signal until its successor was ready.

    Left out: a place whose successor was struck before it was ready.
    """
    deaths: dict[int, float] = {}
    ready: dict[tuple[str, int], list[float]] = {}
    for line in log:
        at_s = datetime.fromisoformat(line["time"]).timestamp()
        if line["event"].endswith(" died"):
            deaths[line["pid"]] = at_s
        elif line["event"] == "child changed" and line["state"] == "READY":
            ready.setdefault((line["role"], line.get("index", 0)), []).append(at_s)
    found = []
    for strike in strikes:
        place = (strike.role, strike.number)
        died_s = deaths.get(strike.pid)
        if died_s is None:
            continue
        again_s = next((at_s for at_s in ready.get(place, ()) if at_s >= died_s), None)
        if again_s is not None and not _struck(strikes, place, strike.at_s, again_s):
            found.append((strike, again_s - strike.at_s))
    return found


def _struck(
    strikes: Iterable[Strike], place: tuple[str, int], after_s: float, before_s: float
) -> bool:
    """Whether that place was struck once more in between."""
    return any(
        (other.role, other.number) == place and after_s < other.at_s < before_s for other in strikes
    )
