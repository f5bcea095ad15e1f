"""What other settings in force cost the calls meanwhile: a reload while thousands of calls wait.

A crowd's calls wait, and a light user calls 200 times a second. In one run nothing is reloaded, in
one the weights alternate, in one the number of levels: then every waiting call of the lower levels
moves. What is shown is the light user's longest latency, and how many of its calls failed.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..server.demo.server import DemoServer
from .generator import Flow
from .rows import Row, loaded, nap

WAITING = 60_000  # of which 50,000 are left when it begins
EVERY_S = 0.5
CROWD_RATE = 5_000.0  # calls a second until all of them wait
CONNECTIONS = 64
NAP_MS = 2
PAGE = 4096  # bytes of payload for each call
RELOADS: Mapping[str, Sequence[str]] = {
    "nothing": (),
    "weights": ("faircallqueue.multiplexer.weights = [1, 2, 3, 4]", ""),
    "levels": ("scheduler.priority.levels = 2", ""),
}


def rows(seconds: float, waiting: int = WAITING) -> list[Row]:
    """A row for each thing that is reloaded."""
    return [_row(what, seconds, waiting) for what in RELOADS]


class Reloader:
    """Writes the settings of each reload in turn, and has the server read them, in a thread."""

    def __init__(self, server: DemoServer, file: Path, settings: Sequence[str]) -> None:
        self._server, self._file = server, file
        self._settings = itertools.cycle(settings)
        self._thread = threading.Thread()
        self.took_ms: list[float] = []

    def reload(self) -> None:
        """Begin the next one, if the last one has ended."""
        if self._thread.is_alive():
            return
        self._file.write_text(f"[ipc]\n{next(self._settings)}\n")
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def join(self) -> None:
        if self._thread.ident:
            self._thread.join()

    def _wait(self) -> None:
        began = time.monotonic()
        self._server.reload()
        self.took_ms.append((time.monotonic() - began) * 1000)


def _row(what: str, seconds: float, waiting: int) -> Row:
    filled_s = waiting / CROWD_RATE + EVERY_S
    light = Flow(user="light", rate=200, connections=2, timed=True, starts_s=filled_s)
    crowd = Flow(
        user="crowd", rate=CROWD_RATE, calls=waiting, connections=CONNECTIONS, call=nap(NAP_MS)
    )
    with tempfile.TemporaryDirectory(prefix="faircall-reload-") as folder:
        file = Path(folder) / "faircall.toml"
        file.touch()
        with loaded(_room_for(waiting), [light, crowd], file) as (server, generator):
            reloader = Reloader(server, file, RELOADS[what])
            lengths: list[int] = []

            def look(elapsed_s: float) -> None:
                if elapsed_s > filled_s + EVERY_S:
                    if not lengths:
                        lengths.append(server.stats()["queue"]["waiting"])
                    elif RELOADS[what]:
                        reloader.reload()

            generator.run(filled_s + 2 * EVERY_S + seconds, EVERY_S, look)
            reloader.join()
    seen = generator.seen["light"]
    counted = {"from_s": filled_s + 2 * EVERY_S}
    return {
        "reloaded": what,
        "waiting": max(lengths),
        "reloads": len(reloader.took_ms),
        "reload ms": max(reloader.took_ms, default=0.0),
        "light p50 ms": seen.quantile_ms(0.5, **counted),
        "light p99 ms": seen.quantile_ms(0.99, **counted),
        "light max ms": seen.quantile_ms(1, **counted),
        "light failed": sum(seen.refused.values()),
        "crowd failed": sum(generator.seen["crowd"].refused.values()),
    }


def _room_for(waiting: int) -> Mapping[str, str]:
    """Settings with which nothing is refused (each level has room), and nothing expires."""
    return {
        "ipc.callqueue.total-capacity": str(5 * waiting),
        "ipc.callqueue.max-principal-share": "1.0",
        "ipc.decay-scheduler.period-ms": "60000",  # the crowd stays the heavy one
        "limits.max-in-flight-per-connection": str(max(1, waiting // CONNECTIONS * 2)),
        "limits.segment-payload-bytes": str(max(64 << 20, 6 * waiting * PAGE)),
        "limits.default-timeout-ms": "600000",
    }
