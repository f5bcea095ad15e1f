"""What thousands of held calls cost a running server while nothing happens."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ..server.demo.server import DemoServer
from .generator import Flow
from .rows import Outcome, Row, loaded

HELD = 10_000
MOST = 0.01  # of a processor
RATE = 4_000.0  # calls a second until all are held
CONNECTIONS = 64
FILL_S = 30.0
PAGE = 4096  # bytes of payload for each call


def held(seconds: float, calls: int = HELD) -> Outcome:
    """A row of the empty server, and one with `calls` of them."""
    rows = [_row(count, seconds) for count in (0, calls)]
    holds = rows[1]["held"] == calls and float(str(rows[1]["CPU %"])) < 100 * MOST
    return Outcome(rows, f"{calls} held calls cost less than {MOST:.0%} of a processor", holds)


def cpu_ns(pid: int) -> int:
    """Processor time of a process and its children until now."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(
        int(path.read_text().split()[0])
        for process in (pid, *map(int, children))
        for path in Path(f"/proc/{process}/task").glob("*/schedstat")
    )


def _row(calls: int, seconds: float) -> Row:
    flow = Flow(user="held", rate=RATE, calls=calls + 1, connections=CONNECTIONS)
    with loaded(_room_for(calls), [flow]) as (server, generator):
        if calls:
            generator.run((calls + 1) / RATE + 0.5)
            _wait_for(server, calls)
        else:
            time.sleep(1.0)  # what a start leaves to do
        began_ns, before_ns = time.monotonic_ns(), cpu_ns(server.pid)
        time.sleep(seconds)
        spent = (cpu_ns(server.pid) - before_ns) / (time.monotonic_ns() - began_ns)
        count = server.stats()["queue"]["held"]
    return {"held": count, "seconds": float(seconds), "CPU %": 100 * spent}


def _wait_for(server: DemoServer, calls: int) -> None:
    gives_up = time.monotonic() + FILL_S
    while server.stats()["queue"]["held"] < calls and time.monotonic() < gives_up:
        time.sleep(0.1)
    time.sleep(1.0)


def _room_for(calls: int) -> Mapping[str, str]:
    """Settings with which one call goes, and all others are held for the time of a measurement."""
    return {
        "throttle.rates": "method echo: calls=1 period-s=3600",
        "throttle.max-held-share": "1.0",
        "ipc.callqueue.total-capacity": str(5 * calls + 100),
        "ipc.callqueue.max-principal-share": "1.0",
        "limits.max-in-flight-per-connection": str(max(1, calls // CONNECTIONS * 2)),
        "limits.segment-payload-bytes": str(max(64 << 20, 6 * calls * PAGE)),
        "limits.default-timeout-ms": "7200000",  # later than the opening: else they are refused
        "limits.max-timeout-ms": "7200000",
    }
