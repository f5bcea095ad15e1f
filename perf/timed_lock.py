"""`faircall`, whose processes note for how long they hold the queue's lock.

    python -m faircall.perf.timed_lock FOLDER serve SERVICE ...

Each process counts into a file of its own in FOLDER, named by its process id: a histogram in the
buckets of perf/bench/histogram.py, and behind it the number and the sum in ns. The clock is read
inside of the lock, which makes each hold about 0.2 us longer than it is without.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from pathlib import Path
from types import TracebackType

from ..shm import segment
from ..shm.mutex import RobustMutex
from .bench.histogram import BUCKETS, Histogram, bucket_of

LOCK = "queue"
COUNT, TOTAL, LARGEST = BUCKETS, BUCKETS + 1, BUCKETS + 2
WORDS = BUCKETS + 3


class Holds:
    """How long this process held the lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._words: memoryview | None = None
        os.register_at_fork(after_in_child=self._forget)

    def note(self, held_ns: int) -> None:
        words = self._words if self._words is not None else self._open()
        words[bucket_of(held_ns)] += 1
        words[COUNT] += 1
        words[TOTAL] += held_ns
        words[LARGEST] = max(words[LARGEST], held_ns)

    def _open(self) -> memoryview:
        with (self._folder / str(os.getpid())).open("w+b") as file:
            file.truncate(WORDS * 8)
            self._words = memoryview(mmap.mmap(file.fileno(), WORDS * 8)).cast("Q")
        return self._words

    def _forget(self) -> None:
        """A child counts into a file of its own."""
        self._words = None


def read(folder: Path) -> Histogram:
    """What all processes have counted until now."""
    found = Histogram()
    for path in folder.iterdir():
        words = memoryview(path.read_bytes()).cast("Q")
        each = Histogram(words[COUNT], words[TOTAL], words[LARGEST])
        each.buckets.update({at: words[at] for at in range(BUCKETS) if words[at]})
        found += each
    return found


def time_lock(holds: Holds) -> None:
    """From now on segments have such a lock for the queue."""

    class TimedMutex(RobustMutex):
        __slots__ = ("_since_ns",)

        def __enter__(self) -> None:
            super().__enter__()
            self._since_ns = time.monotonic_ns()

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            traceback: TracebackType | None,
        ) -> None:
            held_ns = time.monotonic_ns() - self._since_ns
            super().__exit__(kind, error, traceback)
            holds.note(held_ns)

    def chosen(address: int, name: str, *rest: object) -> RobustMutex:
        kind = TimedMutex if name == LOCK else RobustMutex
        return kind(address, name, *rest)  # type: ignore[arg-type]

    segment.RobustMutex = chosen  # type: ignore[attr-defined,assignment]


def main() -> None:
    """The command line of faircall, after the folder."""
    from ..server.cli import main as faircall

    folder = Path(sys.argv.pop(1))
    time_lock(Holds(folder))
    faircall()


if __name__ == "__main__":
    main()
