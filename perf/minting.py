"""Minted names: a heavy user that claims a fresh name before every call, against one fixed name.

Who is a new user for every call is never heavy by its history: it stays on level 0, where turns
are given to names. What that gains it, what it costs the light user and how much memory the names
take is measured against the same load under one name.
"""

from __future__ import annotations

from .generator import Flow
from .rows import FAIR, Row, loaded, nap, pss_mib

CONNECTIONS = 64
MEMORY_CONNECTIONS = 32
KINDS = ("fixed", "minted")
LIGHT_RATE = 50.0
SETTLED = 1 / 3


def rows(seconds: float, connections: int = CONNECTIONS) -> list[Row]:
    """A row for each kind of names; the ratios are to the first."""
    found = [_measured(kind, seconds, connections) for kind in KINDS]
    fixed = found[0]
    return [
        {**row, "p99 ratio": _ratio(row["light p99 ms"], fixed["light p99 ms"])} for row in found
    ]


def memory_rows(
    seconds: float, every_s: float = 15.0, connections: int = MEMORY_CONNECTIONS
) -> list[Row]:
    """The memory of all processes by the number of names that were seen; growth from the first row.

    The first look is `every_s` after the start, when every process has warmed up, and the admin
    process has been asked once for what the looks ask it.
    """
    found: list[dict[str, float]] = []
    flow = Flow(user="heavy", connections=connections, fresh_names=True)
    with loaded(FAIR, [flow]) as (server, generator):

        def look(elapsed_s: float) -> None:
            mib, names = pss_mib(server.pid), sum(generator.seen["heavy"].served.values())
            first = found[0] if found else {"names": names, "PSS MiB": mib}
            found.append(
                {
                    "seconds": round(elapsed_s),
                    "names": names,
                    "users known": server.stats()["users"]["unique"],
                    "PSS MiB": mib,
                    "names since": names - first["names"],
                    "growth MiB": mib - first["PSS MiB"],
                }
            )

        server.stats()
        generator.run(seconds, every_s, look)
    return list(found)


def _measured(kind: str, seconds: float, connections: int) -> dict[str, float | str]:
    call = nap(2)
    light = Flow(user="light", rate=LIGHT_RATE, connections=2, timed=True, call=call)
    heavy = Flow(user="heavy", connections=connections, call=call, fresh_names=kind == "minted")
    with loaded(FAIR, [light, heavy]) as (server, generator):
        before_mib = pss_mib(server.pid)
        generator.run(seconds)
        after_mib = pss_mib(server.pid)
        users = server.stats()["users"]["unique"]
    seen = generator.seen
    served = {user: sum(seen[user].served.values()) for user in seen}
    return {
        "names": kind,
        "heavy share": served["heavy"] / max(1, sum(served.values())),
        "heavy calls/s": served["heavy"] / seconds,
        "light p50 ms": seen["light"].quantile_ms(0.5, from_s=seconds * SETTLED),
        "light p99 ms": seen["light"].quantile_ms(0.99, from_s=seconds * SETTLED),
        "users known": users,
        "PSS growth MiB": after_mib - before_mib,
    }


def _ratio(value: float | str, base: float | str) -> float:
    return float(value) / float(base)
