"""Calls that begin, and then wait until the test lets them go."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from ..daemon import until


class Gate:
    """A FIFO for one call of `hold(gate.path)`; whoever opens the gate ends the call."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self.path = str(folder / name)
        self._fd = -1
        os.mkfifo(self.path)

    def wait_for_call(self) -> None:
        """Until the call has begun."""
        self._fd = until(self._reached, f"a call at {self.path}")

    def hold_any_call(self) -> None:
        """A call may begin from now on, or may not: the gate can be opened either way."""
        self._fd = os.open(self.path, os.O_RDWR)

    def open(self, text: str = "") -> None:
        """The call ends with `text` as its result."""
        os.write(self._fd, text.encode())
        os.close(self._fd)
        self._fd = -1

    def _reached(self) -> int:
        try:
            return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads yet
                raise
            return 0


def gates(folder: Path, count: int) -> list[Gate]:
    return [Gate(folder, f"gate-{number}") for number in range(count)]


def wait_for_calls(gates: Iterable[Gate]) -> None:
    for gate in gates:
        gate.wait_for_call()
