"""What a flood of a limited method costs the light calls of another one, which has no limit.

100 callers flood a method of 50 calls a second that occupies a handler for 10 ms. Beside them, or
alone, light calls come 300 times a second; the server is the same one for both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..server.demo.server import DemoServer, running_server
from .generator import Flow, Generator, Seen
from .rows import HANDLERS, SERVICE, Outcome, Row, nap

LIMIT = 50
CALLERS = 100
LIGHT_RATE = 300.0
ROUNDS = 3
MOST = 3.0  # times the p99 alone
SETTLE_S = 0.5  # until callers are known, and the flood is held
CALM_S = 30.0


def neighbour(seconds: float) -> Outcome:
    """A row with pacing, which is what the claim is about, and one without."""
    rows = [_row("on", seconds), _row("off", seconds)]
    ratio = float(str(rows[0]["p99 ratio"]))
    return Outcome(rows, f"paced, p99 beside the flood is at most {MOST:g} of alone", ratio <= MOST)


def _row(paced: str, seconds: float) -> Row:
    settings = {
        "throttle.rates": f"method nap: calls={LIMIT}",
        "throttle.paced": "true" if paced == "on" else "false",
    }
    alone, beside, flooded = Seen(), Seen(), 0
    light = Flow(user="light", rate=LIGHT_RATE, connections=2, timed=True)
    flood = [Flow(user=f"flood-{number}", call=nap(10)) for number in range(CALLERS)]
    with running_server(HANDLERS, settings, SERVICE) as server:
        for _ in range(ROUNDS):
            _load(server, [light], seconds / ROUNDS, alone)
            flooded += _load(server, [light, *flood], seconds / ROUNDS, beside)
            _wait_until_calm(server)
    p99s = [seen.quantile_ms(0.99) for seen in (alone, beside)]
    return {
        "paced": paced,
        "light calls": len(alone.latencies) + len(beside.latencies),
        "flood calls/s": flooded / seconds,
        "p50 alone ms": alone.quantile_ms(0.5),
        "p50 beside ms": beside.quantile_ms(0.5),
        "p99 alone ms": p99s[0],
        "p99 beside ms": p99s[1],
        "p99 ratio": p99s[1] / p99s[0],
    }


def _load(server: DemoServer, flows: Sequence[Flow], seconds: float, seen: Seen) -> int:
    """Adds the latencies of the light calls to `seen`; how many of the flood were served."""
    generator = Generator(server.address, flows)
    try:
        generator.run(seconds + SETTLE_S)
    finally:
        generator.close()
    late = (pair for pair in generator.seen["light"].latencies if pair[0] > SETTLE_S * 1e9)
    seen.latencies.extend(late)
    return sum(sum(generator.seen[flow.user].served.values()) for flow in flows[1:])


def _wait_until_calm(server: DemoServer) -> None:
    """Until nothing of the flood is held any more: its callers have gone."""
    gives_up = time.monotonic() + CALM_S
    while server.stats()["queue"]["held"] and time.monotonic() < gives_up:
        time.sleep(0.05)
