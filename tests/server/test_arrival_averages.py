"""Limits that are relative to what arrives, from the reader's count to the row's next limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from faircall.server.janitor.arrivals import ArrivalAverages
from faircall.server.limits import Switches
from faircall.server.rates_in_force import put_in_force
from faircall.shm.limiter_counters import L_LIMIT
from faircall.shm.terms import Kind, key_of

from .reader_client import call
from .reader_world import SMALL, World

S = 1_000_000_000


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    world = make_world(geometry=replace(SMALL, limiters=24))
    world.now_ns = 1000 * S
    put_in_force(world.shared, Switches(), ["method echo: calls=2 relative"], world.now_ns)
    return world


def limit(world: World) -> int:
    limiters = world.shared.table.limiters
    row = limiters.find(key_of(Kind.METHOD, world.shared.names.methods.find("echo")))
    return limiters.q[limiters.at(row) + L_LIMIT] - 1


def test_the_average_counts_from_the_next_renewal_on(world: World) -> None:
    averages, client = ArrivalAverages(world.shared), world.connect()
    averages.tick(world.now_ns)
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(6)))
    client.send(call("seen", id=99))
    world.run()
    assert len(client.answers()) == 3, "two of them, and a method without a limit"
    world.pass_ms(999)
    assert not averages.tick(world.now_ns), "once a second"
    world.pass_ms(501)
    assert averages.tick(world.now_ns)
    assert limit(world) == 2
    world.pass_ms(500)
    world.run()
    assert limit(world) == 6 * 1000 // 1500 + 2
    assert len(client.answers()) == 7, "the other four"


def test_without_a_relative_rate_nothing_is_counted(world: World) -> None:
    averages, client = ArrivalAverages(world.shared), world.connect()
    put_in_force(world.shared, Switches(), ["method echo: calls=2"], world.now_ns)
    averages.tick(world.now_ns)
    client.send(call("echo", [1], 1))
    world.run()
    assert not world.shared.columns.arrived["calls"].any()
    assert not averages.tick(world.now_ns + 2 * S)
