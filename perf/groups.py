"""What a group of handlers costs its neighbours while its queue is full.

    python -m faircall.perf.groups [PAIRS]

Light calls of `echo` come 500 times a second all the time, to one server. In every second window
65 calls of `nap` are there as well, each repeated as soon as it is answered: one runs, as many wait
as there is room for at the level of their caller, and none is refused. A call naps for half a
second: so it is the full queue that is measured, and not how the calls that leave it, or are
refused, compete for the processors. Windows are measured in pairs, the flooded one first in every
other pair, so that what disturbs the machine meets both.

    own group   nap has a handler and a queue of its own
    nothing     the same, but the flood never begins: what the measurement itself makes of it
    shared      all methods share handlers and queue

The ratio is that of the p99 of all light calls in flooded windows to that of the others, with the
interval that resampling of pairs gives (`pairs.pooled_ratio`); `of pairs` is the trimmed mean of
each pair's own ratio.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace

from ..server.demo.server import DemoServer, running_server
from .generator import SECOND_NS, Flow, Generator
from .pairs import LEAST_PAIRS, pooled_ratio, quantile, ratio_of
from .rows import SERVICE, Row, nap, table

NAP_MS = 500.0
LIGHT_RATE = 500.0
ROOM, LEVELS = 64, 4  # calls of each level
IN_FLIGHT = ROOM + 1  # one runs; one more would be refused
WINDOW_S, SETTLE_S = 1.0, 0.25
PAIRS = 40
DROPPED_S = 5.0
NEVER_S = 1e6
QUEUE: Mapping[str, str] = {
    "ipc.callqueue.total-capacity": str(LEVELS * ROOM),
    "ipc.callqueue.max-principal-share": "1.0",
}
OWN_GROUP: Mapping[str, str] = {"handlers.slow.methods": "nap"}
LIGHT = Flow(user="light", rate=LIGHT_RATE, connections=2, timed=True)
FLOOD = Flow(user="flood", connections=IN_FLIGHT, call=nap(NAP_MS))

Window = list[float]  # ms that each light call took


def rows(seconds: float) -> list[Row]:
    """Each of about so many seconds; the last of a third."""
    pairs = max(LEAST_PAIRS, round(seconds / (2 * WINDOW_S)))
    grouped = {**QUEUE, **OWN_GROUP}
    return [
        _row("own group", 1, grouped, pairs, FLOOD),
        _row("(nothing)", 1, grouped, pairs, replace(FLOOD, starts_s=NEVER_S)),
        _row("shared", 2, QUEUE, LEAST_PAIRS, FLOOD),
    ]


def _row(name: str, handlers: int, settings: Mapping[str, str], pairs: int, flood: Flow) -> Row:
    found: list[tuple[Window, Window]] = []
    waiting: list[int] = []
    idle = replace(flood, starts_s=NEVER_S)
    with running_server(handlers, settings, SERVICE) as server:
        for pair in range(pairs):
            both = [(False, idle), (True, flood)]
            windows = {
                is_on: _window(server, flow, waiting if is_on else [])
                for is_on, flow in (both if pair % 2 else reversed(both))
            }
            found.append((windows[False], windows[True]))
    ratio = pooled_ratio(found, 0.99)
    of_pairs = ratio_of([(quantile(a, 0.99), quantile(b, 0.99)) for a, b in found])
    alone, beside = ([ms for pair in found for ms in pair[side]] for side in (0, 1))
    return {
        "nap has": name,
        "pairs": pairs,
        "light calls": len(alone) + len(beside),
        "waiting": min(waiting),
        "p50 alone ms": quantile(alone, 0.5),
        "p50 beside ms": quantile(beside, 0.5),
        "p99 alone ms": quantile(alone, 0.99),
        "p99 beside ms": quantile(beside, 0.99),
        "p99 ratio": ratio.mean,
        "from": ratio.low,
        "to": ratio.high,
        "of pairs": of_pairs.mean,
    }


def _window(server: DemoServer, flood: Flow, waiting: list[int]) -> Window:
    """What light calls took that were due in it; adds to `waiting` how many calls did at its end.
    Who has gone leaves nothing that waits."""
    generator = Generator(server.address, [LIGHT, flood])
    try:
        generator.run(SETTLE_S + WINDOW_S)
        waiting.append(server.stats()["queue"]["waiting"])
    finally:
        generator.close(abort=True)
        _wait_until_empty(server)
    latencies = generator.seen["light"].latencies
    return [took / 1e6 for due, took in latencies if due > SETTLE_S * SECOND_NS]


def _wait_until_empty(server: DemoServer) -> None:
    """What waited is dropped."""
    gives_up = time.monotonic() + DROPPED_S
    while server.stats()["queue"]["waiting"]:
        if time.monotonic() > gives_up:
            raise RuntimeError("calls of connections that were reset still wait")
        time.sleep(0.01)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    print(table([_row("own group", 1, {**QUEUE, **OWN_GROUP}, count, FLOOD)]))
