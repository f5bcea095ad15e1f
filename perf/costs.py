"""Whom a cost provider takes for heavy: three users who make equally many calls.

    cheap       does nothing
    shared      waits 2 ms under a lock that others may share
    exclusive   waits 2 ms under a lock that keeps all others out

Where every call costs 1 all three are alike; weighted by time and locks they are not.
"""

from __future__ import annotations

from .generator import Flow
from .rows import FAIR, Row, levels, loaded

CALLS = 1000
PROVIDERS = ("DefaultCostProvider", "WeightedTimeCostProvider")
USERS = {"cheap": "free", "shared": "shared", "exclusive": "exclusive"}
NAP_MS = {"cheap": 0, "shared": 2, "exclusive": 2}
FACTOR = "0.99"  # nearly all of a user's calls still count at the end


def rows(seconds: float, calls: int = CALLS) -> list[Row]:
    """A row for each provider: the level and the share of each user's cost at the end."""
    return [_row(provider, seconds, calls) for provider in PROVIDERS]


def _row(provider: str, seconds: float, calls: int) -> Row:
    """The users make their calls in about `seconds`, if the server can."""
    flows = [
        Flow(
            user=user,
            rate=calls / seconds,
            calls=calls,
            call=b'"method":"locked","params":[%d,"%s"]' % (NAP_MS[user], kind.encode()),
        )
        for user, kind in USERS.items()
    ]
    settings = {
        **FAIR,
        "ipc.cost-provider.impl": provider,
        "ipc.decay-scheduler.decay-factor": FACTOR,
        "ipc.callqueue.max-principal-share": "1.0",
        "ipc.callqueue.newcomer-calls": "0",
    }
    with loaded(settings, flows) as (server, generator):
        generator.run(seconds + 2)  # two more sweeps
        top = {user["user"]: user for user in server.stats()["users"]["top"]}
        at_the_end = levels(server)
    row: dict[str, object] = {"provider": provider}
    for user in USERS:
        row[f"{user} level"] = at_the_end.get(user, 0)
        row[f"{user} share"] = round(top[user]["share"], 2) if user in top else 0.0
    return {
        **row,
        "calls": sum(sum(seen.served.values()) for seen in generator.seen.values()),
    }
