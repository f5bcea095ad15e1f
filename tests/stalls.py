"""When a machine, or who shares its processors with us, left no time for what wants to run."""

from __future__ import annotations

import select
import threading
import time

LONG_NS = 100_000_000
PAUSE_S = 0.005


class Stalls:
    """In a `with` block: notes when a thread that wants to run every few ms did not for LONG_NS.

    What has to happen within such a time, in whatever process, may not be expected.
    """

    def __init__(self) -> None:
        self._found: list[tuple[int, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, from_ns: int, to_ns: int) -> bool:
        """Whether there was one, by the monotonic clock; asked after the block."""
        return any(began < to_ns and ended > from_ns for began, ended in self._found)

    def any(self) -> bool:
        """Whether there was one at all; asked after the block."""
        return bool(self._found)

    def _watch(self) -> None:
        before_ns = time.monotonic_ns()
        while not self._over.is_set():
            select.select([], [], [], PAUSE_S)
            now_ns = time.monotonic_ns()
            if now_ns - before_ns > LONG_NS:
                self._found.append((before_ns, now_ns))
            before_ns = now_ns
