"""HADOOP-9640's claim: a light user's wait does not grow with a heavy user's concurrency.

The heavy user keeps 8, 32, 128 or 512 calls in flight, the light one makes 50 a second whatever
becomes of them. With a plain queue the light user waits behind all calls of the heavy one.
"""

from __future__ import annotations

from collections.abc import Sequence

from .generator import Flow
from .rows import FAIR, FIFO, Row, loaded, nap, waiting

CONNECTIONS = (8, 32, 128, 512)
QUEUES = {"fifo": FIFO, "fair": FAIR}
LIGHT_RATE = 50.0
NAP_MS = 2.0
SETTLED = 1 / 3  # of the run, before which nothing counts: levels follow at a sweep


def rows(seconds: float, connections: Sequence[int] = CONNECTIONS) -> list[Row]:
    """A row for each queue and number of connections."""
    return [_row(queue, count, seconds) for count in connections for queue in QUEUES]


def _row(queue: str, connections: int, seconds: float) -> Row:
    call, lengths = nap(NAP_MS), list[int]()
    light = Flow(user="light", rate=LIGHT_RATE, connections=2, timed=True, call=call)
    heavy = Flow(user="heavy", connections=connections, call=call)
    with loaded(QUEUES[queue], [light, heavy]) as (server, generator):
        generator.run(seconds, every_s=seconds / 4, look=waiting(server, lengths))
        seen = generator.seen
    return {
        "heavy in flight": connections,
        "queue": queue,
        "light p50 ms": seen["light"].quantile_ms(0.5, from_s=seconds * SETTLED),
        "light p99 ms": seen["light"].quantile_ms(0.99, from_s=seconds * SETTLED),
        "light calls": len(seen["light"].latencies),
        "heavy calls/s": sum(seen["heavy"].served.values()) / seconds,
        "waiting": max(lengths, default=0),
    }
