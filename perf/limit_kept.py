"""How many calls of a limited method go in each period, in handlers that race or are killed.

20 callers keep a call each waiting; 4 handlers claim them. What counts is when a call was claimed,
as its handler wrote it into a file the moment it began: a call whose handler died counts, too, and
so does its second run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..server.demo.server import DemoServer, running_server
from .claims import SECOND_NS, most_within, per_period, whole
from .pump import Pump
from .rows import SERVICE, Outcome

LIMIT = 50  # calls a second
CALLERS = 20
HANDLERS = 4
NAP_MS = 3.0
NAP_WHILE_KILLED_MS = 40.0  # handlers spend half of their lives in calls, so that kills end some
BETWEEN_KILLS_S = (0.2, 2.5)
METHOD = "stamp"


def stamp_call(file: Path, nap_ms: float = 0.0, padding: str = "") -> bytes:
    """A call that leaves the time of its claim in `file`, without the braces of its object."""
    params = json.dumps([str(file), nap_ms, padding]).encode()
    return b'"jsonrpc":"2.0","method":"%s","params":%s,"id":1' % (METHOD.encode(), params)


def stamps_in(file: Path) -> list[int]:
    """What the calls left, in ns."""
    found: list[int] = np.fromfile(file, "<u8").tolist()
    return found


@contextlib.contextmanager
def stamping(rate: str, *, paced: bool = False) -> Iterator[tuple[DemoServer, Path]]:
    """A server with that line of rates, and a file for stamps."""
    settings = {
        "throttle.rates": rate,
        "throttle.paced": str(paced).lower(),
        "ipc.callqueue.newcomer-calls": "0",  # whose calls carry their names, and are longer
    }
    with (
        tempfile.TemporaryDirectory(prefix="faircall-stamps-") as folder,
        running_server(HANDLERS, settings, SERVICE) as server,
    ):
        yield server, Path(folder) / "stamps"


def exact(seconds: float) -> Outcome:
    """Every period has exactly its limit."""
    stamps, _ = _claimed(seconds, paced=False)
    counts = per_period(stamps)
    found = whole(counts)
    row = {
        "periods": len(found),
        "limit": LIMIT,
        "calls": sum(found),
        "fewest": min(found, default=0),
        "most": max(counts.values(), default=0),
    }
    claim = f"each period has {LIMIT} calls"
    return Outcome([row], claim, bool(found) and set(found) == {LIMIT} and row["most"] == LIMIT)


def killed(seconds: float, seed: int) -> Outcome:
    """No period has more than its limit, and every period without a kill has all of it."""
    killer = Killer(seed)
    stamps, died = _claimed(seconds, paced=False, killer=killer)
    counts = per_period(stamps)
    hit = {ns // SECOND_NS for ns in killer.killed_ns}
    others = whole(counts, without=hit)
    row = {
        "kills": killer.kills,
        "calls died": died,
        "periods": len(whole(counts)),
        "of them with kills": len(whole(counts)) - len(others),
        "most": max(counts.values(), default=0),
        "fewest with kills": min((counts[at] for at in hit & set(list(counts)[1:-1])), default=0),
        "fewest without": min(others, default=0),
    }
    holds = row["most"] <= LIMIT and bool(others) and set(others) == {LIMIT} and killer.kills > 0
    claim = f"no period has more than {LIMIT} calls, and each without a kill all of them"
    return Outcome([row], claim, holds)


def paced(seconds: float) -> Outcome:
    """The calls of a period are spread over it, and are as many.

    Counted from the second period on: callers who come in the middle of one find its parts so far
    unused, and use them at once.
    """
    stamps, _ = _claimed(seconds, paced=True)
    first = min(stamps, default=0) // SECOND_NS
    stamps = [stamp for stamp in stamps if stamp // SECOND_NS > first]
    counts = per_period(stamps)
    found = list(counts.values())[:-1]
    row = {
        "periods": len(found),
        "calls": sum(found),
        "in 10 s": 10 * sum(found) / max(1, len(found)),
        "most in a period": max(counts.values(), default=0),
        "most in any second": most_within(stamps),
        "most in any 0.1 s": most_within(stamps, SECOND_NS // 10),
    }
    holds = row["most in any second"] <= LIMIT + 1 and bool(found) and set(found) == {LIMIT}
    claim = f"any second has at most {LIMIT + 1} calls, 10 s have {10 * LIMIT}"
    return Outcome([row], claim, holds)


class Killer:
    """Kills a handler every now and then; `killed_ns` are moments right before and after a kill."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._next_s = self._random.uniform(*BETWEEN_KILLS_S)
        self.kills, self.killed_ns = 0, list[int]()

    def look(self, server: DemoServer, elapsed_s: float) -> None:
        """Kill one if it is time."""
        if elapsed_s < self._next_s:
            return
        self._next_s = elapsed_s + self._random.uniform(*BETWEEN_KILLS_S)
        alive = [
            process["pid"]
            for process in server.stats()["processes"]
            if process["role"] == "handler" and process["status"] == "READY"
        ]
        if not alive:
            return
        self.killed_ns.append(time.monotonic_ns())
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._random.choice(alive), signal.SIGKILL)
            self.kills += 1
        self.killed_ns.append(time.monotonic_ns())


def _claimed(seconds: float, *, paced: bool, killer: Killer | None = None) -> tuple[list[int], int]:
    """(stamps of all runs that began, how many ended with their handler)."""
    with stamping(f"method {METHOD}: calls={LIMIT}", paced=paced) as (server, file):
        nap_ms = NAP_WHILE_KILLED_MS if killer else NAP_MS
        pump = Pump(server.address, b"{%s}\n" % stamp_call(file, nap_ms), CALLERS)
        look: Callable[[float], None] | None = None
        if killer is not None:

            def look(elapsed_s: float) -> None:
                killer.look(server, elapsed_s)

        try:
            pump.run(seconds + 2, look)  # the first and the last period are cut short
            totals = server.stats()["totals"]
        finally:
            pump.close()
        return stamps_in(file), totals["requeued"] + totals["died"]
