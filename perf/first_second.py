"""The first second of a flood: 256 connections of a user whom no sweep has seen start at once.

Until the janitor has looked, within a tenth of a second, the flood has level 0, and only turns
within a level tell the two apart. Its calls start a second after the light user's; what is shown is
that user's latency then.
"""

from __future__ import annotations

from .generator import Flow
from .rows import FAIR, IN_ORDER, Row, levels, loaded, nap

CONNECTIONS = 256
STARTS_S = 1.0
PERIOD_MS = "60000"  # no sweep falls into the measurement
TURNS = {"on": FAIR, "off": IN_ORDER}


def rows(seconds: float, connections: int = CONNECTIONS) -> list[Row]:
    """A row with callers in turn, and one in order of arrival."""
    return [_row(turns, max(seconds, STARTS_S + 1), connections) for turns in TURNS]


def _row(turns: str, seconds: float, connections: int) -> Row:
    call = nap(2)
    light = Flow(user="light", rate=100, connections=2, timed=True, call=call)
    flood = Flow(user="flood", connections=connections, starts_s=STARTS_S, call=call)
    settings = {**TURNS[turns], "ipc.decay-scheduler.period-ms": PERIOD_MS}
    with loaded(settings, [light, flood]) as (server, generator):
        generator.run(seconds)
        seen, level = generator.seen["light"], levels(server).get("flood")
    first = {"from_s": STARTS_S, "to_s": STARTS_S + 1}
    return {
        "in turn": turns,
        "connections": connections,
        "light p50 before ms": seen.quantile_ms(0.5, to_s=STARTS_S),
        "light p50 ms": seen.quantile_ms(0.5, **first),
        "light p99 ms": seen.quantile_ms(0.99, **first),
        "flood calls": sum(generator.seen["flood"].served.values()),
        "flood level": level,
    }
