"""Moments in which the machine itself stands still, and how to tell them from a slow server.

    python -m faircall.perf.pauses [--seconds 1] [--repeats 10]

A virtual machine may be stopped by its host for 10 to 20 ms at a time, on all its processors at
once, above all while it keeps them all busy; its kernel then counts the pause as time in which the
process that ran has used the processor. So a call that takes 1 ms of processor time seems to have
taken 15, and whoever waits meanwhile waits for nobody's fault here.

The command shows what there is of it without any server: a bare process per processor works in
pieces of 1 ms; a piece that takes longer than PAUSE_MS of *processor* time was paused. In a server
of `perf.services` whose environment names a file (PAUSES_VARIABLE), `spin1` notes its own there, so
that a measurement can say which pauses fell into it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Sequence
from pathlib import Path

PAUSES_VARIABLE = "PERF_PAUSES_FILE"
PAUSE_MS = 5.0  # of processor time for what takes 1 ms


class Pauses:
    """Those in a file: each line has its beginning (monotonic ns) and its processor time (ms)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def longest_ms(self, from_ns: int = 0, to_ns: int = 1 << 63) -> float:
        """The longest that began in between; 0.0 if there is none."""
        found = (line.split() for line in self.path.read_text().splitlines())
        return max((float(ms) for ns, ms in found if from_ns <= int(ns) < to_ns), default=0.0)


class PauseWatch:
    """`began` before and `ended` after a piece of 1 ms; noted in the environment's file, if any."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or os.environ.get(PAUSES_VARIABLE)

    def began(self) -> tuple[int, int]:
        return (time.monotonic_ns(), time.thread_time_ns()) if self._path else (0, 0)

    def ended(self, began: tuple[int, int]) -> None:
        if not self._path:
            return
        ms = (time.thread_time_ns() - began[1]) / 1e6
        if ms > PAUSE_MS:
            with open(self._path, "a") as file:  # one short write at its end: whole lines
                file.write(f"{began[0]} {ms:.1f}\n")


def _work(seconds: float, path: str) -> None:
    from .services import spin, turns_per_ms

    watch, end, turns = PauseWatch(path), time.monotonic() + seconds, turns_per_ms()
    while time.monotonic() < end:
        began = watch.began()
        spin(turns)
        watch.ended(began)


def longest_ms(seconds: float, path: Path) -> float:
    """The longest pause while a bare process per processor works for that long."""
    pauses = Pauses(path)
    from_ns = time.monotonic_ns()
    count = len(os.sched_getaffinity(0))
    workers = [
        multiprocessing.Process(target=_work, args=(seconds, str(path))) for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return pauses.longest_ms(from_ns)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the longest pause of each repeat."""
    import tempfile

    from .services import TURNS_VARIABLE, turns_per_ms

    parser = argparse.ArgumentParser(prog="python -m faircall.perf.pauses")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args(arguments)
    os.environ[TURNS_VARIABLE] = str(turns_per_ms())
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeats):
            print(f"longest pause {longest_ms(options.seconds, Path(folder) / 'pauses'):.1f} ms")


if __name__ == "__main__":
    main()
