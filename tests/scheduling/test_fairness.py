"""Fairness in virtual time: scenarios, the shares that they must give, and FIFO, which must fail.

Each scenario is more load than the server has capacity (1,000 calls of 1 ms per second and
handler). `served` is what each user must get per second, within the tolerance, from the third sweep
period on, as the arithmetic of levels, weights and overflow says:

    a light user (level 0 of weights 8, 4, 2, 1) is never limited: it gets all that it asks for;
    the last level gets its draws, 1 of 15; the draws of empty levels go to the first that is not;
    calls of level 2 that overflow into level 3 compete for the room there by arrival rates, so of
    1000/15 calls per second the heavy user of the first scenario gets 4000/(4000 + 2000 - 733).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from faircall.scheduling.call_queue import CallQueue, Parts
from faircall.scheduling.cost import WeightedTimeCostProvider
from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.decay_settings import DecaySettings
from faircall.scheduling.queues import FairCallQueue, LinkedBlockingQueue, QueueSettings
from faircall.scheduling.scheduler import DefaultRpcScheduler

from .simulation import Call, Outcome, Server, User

TOLERANCE, SLACK = 0.10, 10.0  # of the rate, or calls per second (1 % of a handler)
PERIODS, SETTLED = 6, range(2, 6)
CAPACITY = 400


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Users on a server, what each must be served per second, and how long it may wait at p99."""

    users: tuple[User, ...]
    served: dict[str, float] = field(default_factory=dict)
    waits_ms: dict[str, float] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    handlers: int = 1
    period_ms: int = 1000
    settings: dict[str, Any] = field(default_factory=dict)


SCENARIOS = {
    "three open loops over capacity": Scenario(
        users=(
            User(name="heavy", rate=4000),
            User(name="middle", rate=2000),
            User(name="light", rate=200),
        ),
        served={"heavy": 51, "middle": 749, "light": 200},
        levels={"heavy": 3, "middle": 2, "light": 0},
    ),
    "a closed loop of 256 connections beside a light user": Scenario(
        users=(User(name="heavy", connections=256), User(name="light", rate=50)),
        served={"heavy": 1950, "light": 50},
        waits_ms={"light": 2.0},
        levels={"heavy": 3, "light": 0},
        handlers=2,
    ),
    "few long calls beside many short ones, charged by time": Scenario(
        users=(
            User(name="long", rate=500, service_ms=4),
            User(name="short", rate=400),
        ),
        served={"long": 150, "short": 400},
        levels={"long": 3, "short": 1},
        settings={"cost_provider": WeightedTimeCostProvider()},
    ),
    "a service user beside a flood": Scenario(
        users=(User(name="flood", rate=2500), User(name="service", rate=500)),
        served={"flood": 500, "service": 500},
        levels={"flood": 3, "service": 0},
        settings={"service_users": frozenset({"service"})},
    ),
}


def fair(
    scenario: Scenario, *, in_turn: bool = False, capacity: int = CAPACITY, **settings: Any
) -> CallQueue[Call]:
    """The fair call queue under the decay scheduler."""
    merged = {"levels": 4, **scenario.settings, **settings}
    queue: FairCallQueue[Call] = FairCallQueue(
        QueueSettings(levels=4, capacity=capacity, in_turn=in_turn)
    )
    return CallQueue(Parts(queue, DecayRpcScheduler(DecaySettings(**merged))), backoff=True)


def fifo(capacity: int = CAPACITY) -> CallQueue[Call]:
    """First in, first out."""
    return CallQueue(Parts(LinkedBlockingQueue(capacity), DefaultRpcScheduler()), backoff=True)


def played(scenario: Scenario, calls: CallQueue[Call], seed: int = 1) -> Outcome:
    """The outcome of a scenario with a queue."""
    server = Server(
        calls,
        list(scenario.users),
        handlers=scenario.handlers,
        period_ms=scenario.period_ms,
        seed=seed,
    )
    return server.run(PERIODS)


def assert_fair(scenario: Scenario, outcome: Outcome) -> None:
    """Every user is served what it must be, and soon enough."""
    rates = {name: outcome.rate(name, SETTLED, scenario.period_ms) for name in scenario.served}
    assert rates == pytest.approx(scenario.served, rel=TOLERANCE, abs=SLACK)
    for name, longest_ms in scenario.waits_ms.items():
        assert outcome.wait_ms(name, SETTLED) <= longest_ms


@pytest.mark.parametrize("in_turn", [False, True], ids=["arrival order", "in turn"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_everyone_is_served_a_fair_share(name: str, in_turn: bool) -> None:
    scenario = SCENARIOS[name]
    outcome = played(scenario, fair(scenario, in_turn=in_turn))
    assert_fair(scenario, outcome)
    assert outcome.levels[1:] == [scenario.levels] * (PERIODS - 1)


@pytest.mark.parametrize("name", SCENARIOS)
def test_fifo_serves_nobody_fairly(name: str) -> None:
    """The test of the test: what it asserts is not true of every queue."""
    scenario = SCENARIOS[name]
    outcome = played(scenario, fifo())
    with pytest.raises(AssertionError):
        assert_fair(scenario, outcome)


@pytest.mark.parametrize("connections", [8, 32, 128, 512])
def test_a_light_user_waits_no_longer_behind_more_connections(connections: int) -> None:
    """HADOOP-9640's claim: with FIFO the wait grows with the heavy user's concurrency."""
    scenario = Scenario(
        users=(User(name="heavy", connections=connections), User(name="light", rate=50)),
        handlers=2,
    )
    fairly = played(scenario, fair(scenario, capacity=4000))
    in_order = played(scenario, fifo(capacity=4000))
    assert fairly.wait_ms("light", SETTLED) <= 2.0
    ahead = connections - scenario.handlers
    assert in_order.wait_ms("light", SETTLED, quantile=0.5) == pytest.approx(
        ahead / scenario.handlers, rel=0.1, abs=2.0
    )


def test_in_turn_service_covers_the_time_before_the_first_sweep() -> None:
    """Unknown connections all at once: by Hadoop's rules they are level 0 until calls complete."""
    scenario = Scenario(
        users=(User(name="flood", connections=90), User(name="light", rate=50)),
        handlers=2,
    )
    first = range(1)
    by_arrival = played(scenario, fair(scenario, charge="completion"))
    in_turn = played(scenario, fair(scenario, charge="completion", in_turn=True))
    assert in_turn.wait_ms("light", first, quantile=1.0) <= 2.0
    assert by_arrival.wait_ms("light", first, quantile=1.0) > 20.0


def test_charging_refused_calls_keeps_the_levels_of_floods_apart() -> None:
    """Two floods; charged for what is served only, they change places with every few sweeps."""
    scenario = SCENARIOS["three open loops over capacity"]
    on_arrival = played(scenario, fair(scenario)).levels[1:]
    on_completion = played(scenario, fair(scenario, charge="completion")).levels[1:]
    assert len({level["heavy"] for level in on_arrival}) == 1
    assert len({level["heavy"] for level in on_completion}) > 1
