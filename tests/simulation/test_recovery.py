"""A user that stops calling gets its level back after as many sweeps as the arithmetic says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from faircall.scheduling import decay

from ..daemon import PROBE, Daemon, serving, until
from ..raw import Raw, request

PERIOD_MS, FACTOR = 400, 0.5
THRESHOLDS = decay.default_thresholds(4)
HEAVY_CALLS, STEADY_CALLS = 1024, 64  # once; in every period
ARGS = (
    "--handlers",
    "1",
    "--trust-loopback",
    "--set",
    f"ipc.decay-scheduler.period-ms={PERIOD_MS}",
    "--set",
    "ipc.callqueue.newcomer-calls=0",  # levels are those of the sweep alone
)
KEYS = ("decayed", "level", "cost")


@dataclass(frozen=True)
class Swept:
    """The state after `sweeps`; `cost` is what each user was ever charged."""

    sweeps: int
    decayed: Mapping[str, int]
    level: Mapping[str, int]
    cost: Mapping[str, int]


def state(daemon: Daemon, since: Swept | None = None) -> Swept:
    """What two looks in a row agree on, and no look into the middle of a sweep.

    The heavy user calls no more: so what is left of its cost `since` tells how many sweeps it has
    seen, and the count of sweeps goes up when one is complete.
    """

    def look() -> Swept:
        port = daemon.stats()["ports"][0]
        users = {user["user"]: user for user in port["users"]["top"]}
        fields = ({name: user[key] for name, user in users.items()} for key in KEYS)
        return Swept(port["sweeps"]["done"], *fields)

    def agreed() -> Swept | None:
        first = look()
        return first if look() == first and (since is None or follows(first, since)) else None

    found = until(agreed, "two looks that agree")
    assert found is not None
    return found


def follows(found: Swept, since: Swept) -> bool:
    costs = since.decayed
    for _ in range(found.sweeps - since.sweeps):
        costs = one_sweep(costs)
    return found.decayed.get("heavy", 0) == costs.get("heavy", 0)


def after_a_sweep(daemon: Daemon, before: Swept, *, follow: bool = True) -> Swept:
    """The state once there were more sweeps than `before`."""

    def look() -> Swept | None:
        found = state(daemon, before if follow else None)
        return found if found.sweeps > before.sweeps else None

    found = until(look, "a sweep")
    assert found is not None
    return found


def call(connection: Raw, calls: int) -> None:
    """That many calls, answered or refused: all of them are charged."""
    connection.send(*(request("echo", 0, id=number) for number in range(calls)))
    for _ in range(calls):
        connection.receive()


def one_sweep(costs: Mapping[str, int]) -> dict[str, int]:
    return {name: int(cost * FACTOR) for name, cost in costs.items()}


def levels_of(costs: Mapping[str, int]) -> dict[str, int]:
    total = sum(costs.values())
    return {name: decay.level_of(cost, total, THRESHOLDS) for name, cost in costs.items() if cost}


def sweeps_to_recover(costs: Mapping[str, int]) -> int:
    """How many sweeps until the heavy user is back on level 0, the steady one going on."""
    sweeps, now = 0, dict(costs)
    while True:
        sweeps, now = sweeps + 1, one_sweep(now)
        if levels_of(now).get("heavy", 0) == 0:
            return sweeps
        now["steady"] += STEADY_CALLS


@pytest.mark.slow
def test_a_user_that_stops_recovers_when_the_arithmetic_says(tmp_path: Path) -> None:
    """Every state follows from the one before; so does the number of sweeps, unless one of them
    was faster than the steady user's calls."""
    with (
        serving(tmp_path, PROBE, *ARGS) as daemon,
        Raw(daemon.tcp) as heavy,
        Raw(daemon.tcp) as steady,
    ):
        heavy.call("faircall.hello", "heavy")
        steady.call("faircall.hello", "steady")
        call(heavy, HEAVY_CALLS)
        call(steady, STEADY_CALLS)
        now, swept, in_time = after_a_sweep(daemon, state(daemon), follow=False), 0, True
        call(steady, STEADY_CALLS)
        now = state(daemon, now)
        expected = sweeps_to_recover(now.decayed)
        while True:
            before, costs = now, dict(now.decayed)
            now = after_a_sweep(daemon, before)
            for _ in range(now.sweeps - before.sweeps):
                costs = one_sweep(costs)
            assert now.decayed == {name: cost for name, cost in costs.items() if cost}
            assert now.level == levels_of(costs)
            swept += now.sweeps - before.sweeps
            in_time &= now.sweeps - before.sweeps == 1
            if now.level.get("heavy", 0) == 0:
                break
            call(steady, STEADY_CALLS)
            charged = state(daemon, now)
            assert charged.cost["steady"] == before.cost["steady"] + STEADY_CALLS
            in_time &= charged.sweeps == now.sweeps
            now = charged
        assert swept == expected or not in_time
