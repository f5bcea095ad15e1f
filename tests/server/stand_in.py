"""A reader's stand-in, and how tests wait for what other processes do."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Any

from faircall.server.supervisor.roles import Duty
from faircall.shm import doorbells
from faircall.shm.states import Life, Phase

from ..daemon import PATIENCE_S


def until(condition: Callable[[], Any], what: str = "") -> Any:
    """The first true value of `condition`, looked at again and again; fails after PATIENCE_S."""
    gives_up = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < gives_up, f"waited {PATIENCE_S} s for {what or condition}"
        select.select([], [], [], 0.002)
    return value


def run_stand_in(duty: Duty, quiet: int = 1) -> int:
    """A reader that adopts connections, keeps them, and is `quiet` while the server drains."""
    shared, far = duty.port.shared, duty.port.handoffs[duty.number].far
    row, bell = shared.row("reader", duty.number), shared.doorbells.readers[duty.number]
    kept: list[socket.socket] = []
    row.enter()
    row["status"], row["quiet"] = Life.READY, quiet
    duty.report("ready")
    poll = select.poll()
    poll.register(far, select.POLLIN)
    poll.register(bell, select.POLLIN)
    while shared.phase.get() != Phase.STOPPED:
        ready = [fd for fd, _ in poll.poll(100)]
        row["beat_ns"] = time.monotonic_ns()
        doorbells.clear(bell)
        if far.fileno() in ready:
            _, fds, _, _ = socket.recv_fds(far, 1, 1)
            kept.extend(socket.socket(fileno=fd) for fd in fds)
            row["connections"] = len(kept)
    return 0
