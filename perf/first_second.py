"""The first second of a flood: 256 connections of a user whom no sweep has seen start at once.

Until the janitor has looked, within a tenth of a second, only turns within a level tell the two
apart. The flood's calls start a second after the light user's; what is shown is that user's latency
then, with calls of 1 ms of processor time, and the longest pause of the machine itself that fell
into that second (`pauses`): a latency beside a pause says nothing of the server.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from .generator import Flow
from .pauses import PAUSES_VARIABLE, Pauses
from .rows import FAIR, IN_ORDER, Row, levels, loaded

CONNECTIONS = 256
STARTS_S = 1.0
LIGHT_RATE = 100.0
PERIOD_MS = "60000"  # no sweep falls into the measurement
TURNS = {"on": FAIR, "off": IN_ORDER}
CALL = b'"method":"spin1","params":[0]'


def rows(
    seconds: float, connections: int = CONNECTIONS, light_rate: float = LIGHT_RATE
) -> list[Row]:
    """A row with callers in turn, and one in order of arrival."""
    return [_row(turns, max(seconds, STARTS_S + 1), connections, light_rate) for turns in TURNS]


def _row(turns: str, seconds: float, connections: int, light_rate: float) -> Row:
    light = Flow(user="light", rate=light_rate, connections=2, timed=True, call=CALL)
    flood = Flow(user="flood", connections=connections, starts_s=STARTS_S, call=CALL)
    settings = {**TURNS[turns], "ipc.decay-scheduler.period-ms": PERIOD_MS}
    with tempfile.TemporaryDirectory() as folder:
        pauses = Pauses(Path(folder) / "pauses")
        outer = {**os.environ, PAUSES_VARIABLE: str(pauses.path)}
        with loaded(settings, [light, flood], outer=outer) as (server, generator):
            begins_ns = time.monotonic_ns() + int(STARTS_S * 1e9)
            generator.run(seconds)
            level = levels(server).get("flood")
        pause_ms = pauses.longest_ms(begins_ns, begins_ns + 1_000_000_000)
    seen = generator.seen["light"]
    first = {"from_s": STARTS_S, "to_s": STARTS_S + 1}
    return {
        "in turn": turns,
        "connections": connections,
        "light p50 before ms": seen.quantile_ms(0.5, to_s=STARTS_S),
        "light p50 ms": seen.quantile_ms(0.5, **first),
        "light p99 ms": seen.quantile_ms(0.99, **first),
        "longest pause ms": pause_ms,
        "flood calls": sum(generator.seen["flood"].served.values()),
        "flood level": level,
    }
