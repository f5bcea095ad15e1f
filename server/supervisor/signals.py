"""The supervisor's signals: a handler queues one number and returns; the loop reads it later.

| signal    | supervisor                                       | its children             |
| SIGTERM   | leaves, drains, stops; a second one stops now    | leave it to the superv.  |
| SIGINT    | drains, stops; a second one stops now            | leave it to the superv.  |
| SIGHUP    | reads the settings again: see `reload`           | leave it to the superv.  |
| SIGCHLD   | looks which children were stopped or continued   | as Python has it         |
| SIGUSR2   | as Python has it                                 | handlers: dump the stack |
| SIGPIPE   | ignored                                          | ignored                  |
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType
from typing import Any

QUEUED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class SignalQueue:
    """`fd` is readable while signals wait. Only the main thread may use it."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1

    def install(self) -> None:
        """From now on signals are queued."""
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _queued) for number in QUEUED}

    def take(self) -> list[signal.Signals]:
        """The signals that have come, in order."""
        with contextlib.suppress(BlockingIOError):
            return [signal.Signals(n) for n in os.read(self.fd, 4096) if n in QUEUED]
        return []

    def restore(self) -> None:
        """As before `install`, for programs that go on afterwards."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.fd)
        os.close(self._write)


def _queued(number: int, frame: FrameType | None) -> None:
    """Python's own C handler has written the number to the pipe."""
