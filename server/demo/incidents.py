"""What `faircall demo incident` replays: incidents that HADOOP-9640 was written after.

Each has a user, a job and a method that do it, among users that do no harm. Names are drawn from a
seed; so are the connections, a quarter more or less.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

USERS = ("ann", "ben", "cleo", "dora", "emil", "finn", "gus", "hana")
JOBS = ("etl", "train", "index", "backup", "scan", "compact")


@dataclass(frozen=True, slots=True)
class Incident:
    """`connections` with `in_flight` calls of `method` each, at every moment, by one job; and
    `light_method`, which the light user calls."""

    name: str
    what: str
    method: str
    params: tuple[object, ...]
    connections: int
    in_flight: int
    light_method: str = "status"
    light_params: tuple[object, ...] = ("/etc/hosts",)


@dataclass(frozen=True, slots=True)
class Cast:
    """Who does it in one run."""

    user: str
    job: str
    connections: int


_ALL = (
    Incident("small-calls", "masses of small calls by one user", "create", ("/tmp/x",), 64, 8),
    Incident(
        "retry-loop", "an endless loop on a failing cheap call", "rename", ("/tmp/gone",), 96, 1
    ),
    Incident(
        "listings",
        "listings of a huge directory, with large answers",
        "listing",
        ("/logs", 2000),
        32,
        1,
    ),
    Incident(
        "heartbeats",
        "heartbeats beside a flood of reports",
        "report",
        ("/blocks",),
        128,
        1,
        "heartbeat",
        (7,),
    ),
)
INCIDENTS: Mapping[str, Incident] = {each.name: each for each in _ALL}


def cast_of(incident: Incident, seed: int) -> Cast:
    """The same for the same seed."""
    draw = random.Random(f"{incident.name} {seed}")
    job = f"{draw.choice(JOBS)}-{draw.randrange(1000, 10_000)}"
    factor = draw.uniform(0.75, 1.25)
    return Cast(draw.choice(USERS), job, max(2, round(incident.connections * factor)))
