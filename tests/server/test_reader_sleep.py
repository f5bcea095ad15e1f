"""How a reader sleeps, and who wakes it."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from faircall.server.reader.reader import BLOCKED_MS, CALLS_PER_PASS, IDLE_MS
from faircall.server.reader.timeouts import CHECK_NS
from faircall.shm import doorbells
from faircall.shm.policy import QueuePolicy
from faircall.shm.states import Phase

from .reader_client import call, reasons
from .reader_world import World

Make = Callable[..., World]


def bell_rings(world: World) -> bool:
    return bool(select.select([world.shared.doorbells.readers[0]], [], [], 0)[0])


def test_it_says_that_it_sleeps_only_while_it_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []

    def sleep_s() -> float:
        said.append(world.row("sleeping"))
        return 0

    monkeypatch.setattr(world.reader, "_sleep_s", sleep_s)
    assert world.reader._wait() == []
    assert said == [doorbells.ANY_AGE]
    assert world.row("sleeping") == 0


def test_who_answers_rings_a_reader_that_sleeps_and_no_other(world: World) -> None:
    client, row = world.connect(), world.shared.row("reader")
    for sleeping in (doorbells.AWAKE, doorbells.ANY_AGE):
        client.send(call("echo", id=1))
        world.read()
        row["sleeping"] = sleeping
        world.handle()
        assert bell_rings(world) == bool(sleeping)
    world.read()
    assert not bell_rings(world)
    assert len(client.answers()) == 2


def test_it_looks_for_answers_before_it_sleeps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = world.connect()
    client.send(call("echo", id=1))
    world.read()
    world.handle()  # nobody rang: the reader did not sleep
    monkeypatch.setattr(world.reader, "_sleep_s", lambda: pytest.fail("it would sleep"))
    world.reader._pass(world.reader._wait())
    assert reasons(client.answers()) == [(1, "ok")]


def test_with_calls_to_take_it_does_not_sleep(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = world.connect()
    client.send(call("rpc.ping", id=1) * (CALLS_PER_PASS + 1))
    world.read()
    monkeypatch.setattr(world.reader, "_sleep_s", lambda: pytest.fail("it would sleep"))
    world.reader._pass(world.reader._wait())
    assert len(client.answers()) == CALLS_PER_PASS + 1


def test_it_sleeps_until_something_is_due(make_world: Make) -> None:
    world = make_world()
    assert world.reader._sleep_s() == IDLE_MS / 1000
    client = world.connect()
    assert world.reader._sleep_s() == CHECK_NS / 1e9  # for its first byte
    client.send(call("echo", id=1, meta={"timeout_ms": 7}))
    world.read()
    assert world.reader._sleep_s() == pytest.approx(0.007)
    world.pass_ms(8)
    assert world.reader._sleep_s() == 0


def test_an_idle_connection_wakes_nobody(world: World) -> None:
    client = world.connect()
    client.send(call("rpc.ping", id=1))
    world.read()
    world.pass_ms(600)
    world.read()
    assert world.reader._sleep_s() == IDLE_MS / 1000


def test_blocked_calls_are_offered_again_soon(make_world: Make) -> None:
    policy = QueuePolicy(capacities=(1, 1, 1, 1), max_principal=16)
    world = make_world(backoff=False, policy=policy)
    world.connect().send(b"".join(call("echo", id=id_) for id_ in range(5)))
    world.read()
    assert world.reader._sleep_s() == BLOCKED_MS / 1000


def test_without_a_slot_for_a_turn_it_looks_again_soon(make_world: Make) -> None:
    policy = QueuePolicy(capacities=(64, 64, 64, 64), max_principal=64)
    world = make_world(backoff=False, policy=policy)
    clients = [world.connect() for _ in range(3)]
    for client in clients:
        client.send(b"".join(call("echo", id=id_) for id_ in range(16)))
    world.read()
    assert world.reader.clients.ready
    assert world.reader.enqueuer.blocked == []
    assert world.reader._sleep_s() == BLOCKED_MS / 1000
    world.run()
    assert [len(client.answers()) for client in clients] == [16, 16, 16]


def test_it_runs_until_the_server_is_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []

    def wait() -> list[tuple[int, int]]:
        passes.append(1)
        if len(passes) == 3:
            world.shared.phase.set(Phase.STOPPED, 0)
        return []

    monkeypatch.setattr(world.reader, "_wait", wait)
    world.reader.run()
    assert len(passes) == 3
