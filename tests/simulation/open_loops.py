"""Three open loops over a real server's capacity, and the same in virtual time.

    heavy 4,000, middle 2,000, light 200 calls a second, on 2 handlers that nap 2 ms for each

What the handlers really get through depends on the machine, so the simulation is given the capacity
and the arrivals that were measured; how they are shared out is what is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from faircall.perf.generator import Flow, Generator
from faircall.scheduling.call_queue import CallQueue, Parts
from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.decay_settings import DecaySettings
from faircall.scheduling.queues import FairCallQueue, QueueSettings

from ..daemon import Daemon
from ..scheduling.simulation import Call, Outcome, Server, User

RATES: Mapping[str, float] = {"heavy": 4000, "middle": 2000, "light": 200}
LEVELS: Mapping[str, int] = {"heavy": 3, "middle": 2, "light": 0}
HANDLERS, NAP_MS, CAPACITY = 2, 2, 400
PERIOD_S, WINDOWS, FIRST = (
    5,
    5,
    2,
)  # windows of one sweep period; the third is the first that counts
TOLERANCE, SLACK = 0.10, 0.01  # of the simulated rate, or of the capacity
SERVICE = "faircall.perf.services:service"
ARGS = (
    *("--handlers", str(HANDLERS), "--readers", "1", "--trust-loopback"),
    *("--set", f"ipc.callqueue.total-capacity={CAPACITY}", "--set", "ipc.backoff.enable=true"),
    *("--set", f"ipc.decay-scheduler.period-ms={PERIOD_S * 1000}"),
)


@dataclass
class Played:
    """What each user was served per second from the third window on, and the levels at each look
    within a window; `sent` is what was really offered per second."""

    served: dict[str, float] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    levels: list[dict[str, int]] = field(default_factory=list)


def played(daemon: Daemon) -> Played:
    """The load on a real server, by a generator with prepared bytes."""
    call = b'"method":"nap","params":[%d]' % NAP_MS
    flows = [Flow(user=user, rate=rate, call=call) for user, rate in RATES.items()]
    generator = Generator(("127.0.0.1", daemon.tcp_port), flows)
    found, seconds = Played(), PERIOD_S * WINDOWS

    def look(elapsed_s: float) -> None:
        users: list[dict[str, Any]] = daemon.stats()["ports"][0]["users"]["top"]
        found.levels.append({user["user"]: user["level"] for user in users})

    try:
        generator.run(seconds, every_s=PERIOD_S - 0.01, look=look)
    finally:
        generator.close()
    for user, seen in generator.seen.items():
        first = PERIOD_S * FIRST
        found.served[user] = seen.served_between(first, seconds) / (seconds - first)
        found.sent[user] = seen.sent / seconds
    return found


def simulated(real: Played) -> Outcome:
    """The same arrivals on the same capacity, in virtual time."""
    service_ms = HANDLERS * 1000 / sum(real.served.values())
    users = [User(name=user, rate=rate, service_ms=service_ms) for user, rate in real.sent.items()]
    queue: FairCallQueue[Call] = FairCallQueue(QueueSettings(levels=4, capacity=CAPACITY))
    parts = Parts(queue, DecayRpcScheduler(DecaySettings(levels=4)))
    calls = CallQueue(parts, backoff=True)
    return Server(calls, users, handlers=HANDLERS, period_ms=PERIOD_S * 1000, seed=1).run(WINDOWS)


def assert_levels(real: Played) -> None:
    """Everybody's level is the one that its share gives, in every window that counts."""
    counting = real.levels[FIRST:]
    assert len(counting) >= WINDOWS - FIRST - 1
    assert counting == [LEVELS] * len(counting)


def assert_served(real: Played, outcome: Outcome) -> None:
    """Everybody is served as in the simulation."""
    windows, period_ms = range(FIRST, WINDOWS), PERIOD_S * 1000
    expected = {user: outcome.rate(user, windows, period_ms) for user in RATES}
    slack = SLACK * sum(expected.values())
    assert real.served == pytest.approx(expected, rel=TOLERANCE, abs=slack)
