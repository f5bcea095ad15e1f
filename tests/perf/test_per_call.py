"""What a call costs, and how long the queue's lock is held, are of the calls that were made."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from faircall.client.address import Address
from faircall.perf import lock_held, per_call_cpu
from faircall.perf.per_call_cpu import SIDES, Side
from faircall.server.demo.server import running_server

pytestmark = pytest.mark.slow

PRIMED = per_call_cpu.PRIMED_AT_ONCE + 10  # more than once, and a rest


def test_who_becomes_known_stays_known_and_every_second_has_a_cost() -> None:
    _, many = SIDES["users"]
    one, two = (replace(many, rate=rate, connections=4) for rate in (200.0, 400.0))
    with running_server(1, many.settings, many.service) as server:
        per_call_cpu.make_known(server.address, PRIMED)
        found = per_call_cpu.costs(one, server, two, server, 2)
        assert server.stats()["users"]["unique"] >= PRIMED
    assert 1 <= len(found) <= 2  # a second in which the machine stood still has none
    assert all(0 < us < math.inf for pair in found for us in pair)


def test_calls_of_several_users_come_at_one_rate() -> None:
    for side in (Side(), Side(users=16)):
        (group,) = side.plan(Address("h", 1), 5.0).groups
        assert len(group.each()) * group.rate == per_call_cpu.RATE
        assert len(group.each()) * group.connections == per_call_cpu.FEW_CONNECTIONS


def test_the_lock_is_held_at_every_call_and_not_all_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock_held, "WARM_UP_S", 0.1)
    (row,) = lock_held.rows(0.4, 1, depths=(1,))
    assert row["in flight"] == lock_held.CONNECTIONS
    assert int(str(row["holds/s"])) > 0
    assert 0 < lock_held.held_share(row) < 1
    assert 0 < float(str(row["p50 us"])) <= float(str(row["p99 us"]))
