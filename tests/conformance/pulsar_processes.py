"""Real handler processes on the call table, as subject of the cases of dispatch throttling.

The test is the reader, and has the clock: it tells each handler the time of the case, all of them
at once, and they claim in a race, again and again, until nothing may go.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace

from faircall.shm.shared import Shared

from ..fault.kill import fork
from .pulsar_shared import GEOMETRY, SharedReplay, serve_once
from .recorded import Case

HANDLERS = 4
TIME_BYTES = 8
NAMED = (
    "MP-01",
    "MP-02",
    "MP-03",
    "MP-04",
    "MP-07",
    "PB-02",
    "PB-03",
    "PB-04",
    "PB-05",
    "PB-06",
    "PB-08",
    "PB-09",
    "PB-10",
    "PB-11",
    "PB-14",
    "LV-01",
    "LV-02",
    "LV-03",
    "LV-05",
    "LV-06",
    "LV-07",
    "LV-08",
    "LV-09",
    "LV-11",
    "LV-12",
    "PR-01",
    "PR-04",
    "PR-07",
    "PR-12",
    "UZ-01",
    "UZ-05",
    "UZ-08",
    "UZ-11",
    "BT-02",
    "BT-08",
    "BA-03",
    "BA-09",
    "RT-01",
    "RT-03",
    "RT-05",
)
"""The cases that are run so: of every rule that a claim goes by."""


BULK_READS = "throttle.dispatcher-max-read-batch-size"
COMPATIBLE: dict[str, str] = {
    "BT-08": "",
    "BA-01": BULK_READS,
    "BA-02": BULK_READS,
    "BA-09": "",
    "RC-03": BULK_READS,
}
"""Cases for those who offer Pulsar's bulk reads: passed, or the key that is refused instead."""


class Handler:
    """One process, told the time and asked what it has done."""

    def __init__(self, shared: Shared, number: int) -> None:
        self._ours, theirs = socket.socketpair()
        self.pid = fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                self._ours.close()
                _live(shared, number, theirs)
            os._exit(0)
        theirs.close()

    def go(self, now_ns: int) -> None:
        self._ours.sendall(now_ns.to_bytes(TIME_BYTES, "little"))

    def served(self) -> int:
        """How many calls it claimed at that time; EOFError if it died."""
        said = self._ours.recv(TIME_BYTES)
        if not said:
            raise EOFError(f"handler {self.pid} is dead")
        return int.from_bytes(said, "little")

    def close(self) -> None:
        self._ours.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _live(shared: Shared, number: int, channel: socket.socket) -> None:
    """In the new process."""
    while said := channel.recv(TIME_BYTES):
        served = serve_once(shared, number, int.from_bytes(said, "little"))
        channel.sendall(served.to_bytes(TIME_BYTES, "little"))


class ProcessReplay(SharedReplay):
    """The reader of a case; `by_handler` is how many calls each handler has claimed."""

    geometry = replace(GEOMETRY, handlers=HANDLERS)

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.handlers = [Handler(self.shared, number) for number in range(HANDLERS)]
        self.by_handler = [0] * HANDLERS

    def close(self) -> None:
        for handler in self.handlers:
            handler.close()
        super().close()

    def serve(self) -> int:
        for handler in self.handlers:
            handler.go(self.now_ns)
        served = [handler.served() for handler in self.handlers]
        self.by_handler = [a + b for a, b in zip(self.by_handler, served, strict=True)]
        return sum(served)


def named(cases: list[Case]) -> Iterator[Case]:
    """Those of `cases` that are in the list."""
    return (case for case in cases if case.name in NAMED)
