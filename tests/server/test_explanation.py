"""A caller asks a reader about its own level."""

from __future__ import annotations

from collections.abc import Callable

from faircall.server.standing import LevelRules

from .reader_client import call
from .reader_world import MS, World

Make = Callable[..., World]


def test_a_caller_learns_why_it_has_its_level(world: World) -> None:
    world.reader._explanation.rules = LevelRules(thresholds=(0.125, 0.25, 0.5))
    alice, bob = world.connect(), world.connect()
    for client, name in ((alice, "alice"), (bob, "bob")):
        client.send(call("faircall.hello", {"user": name}, 0))
    for name, cost in (("alice", 90), ("bob", 10)):
        row = world.shared.names.identity(name, world.now_ns)
        world.shared.columns.charge(0, row, cost)
        record = world.shared.names.identities.rows
        record["level"][row], record["looked"][row] = (3, 1) if name == "alice" else (0, 1)
    alice.send(call("faircall.explain", id=1))
    bob.send(call("faircall.explain", id=1))
    world.run()
    found, other = (client.answers()[-1]["result"] for client in (alice, bob))
    assert (found["user"], found["level"], found["share"]) == ("alice", 3, 0.9)
    assert found["why"] == "90.0% of the cost is at least the 50.0% at which level 3 begins"
    assert found["if_idle"]["sweeps_until_better"] == 5
    assert (other["user"], other["level"]) == ("bob", 0)
    assert "alice" not in str(other)


def test_it_is_about_nobody_else(world: World) -> None:
    client = world.connect()
    client.send(call("faircall.explain", {"user": "alice"}, 1))
    world.run()
    (answer,) = client.answers()
    assert answer["error"]["code"] == -32602
    assert "takes no parameters" in answer["error"]["message"]


def test_however_many_ask_the_rows_are_read_twice_a_second(world: World) -> None:
    client, read = world.connect(), world.shared.columns.cost_totals
    times = []

    def counted() -> object:
        times.append(world.now_ns)
        return read()

    world.shared.columns.cost_totals = counted  # type: ignore[method-assign, assignment]
    for _ in range(3):
        client.send(call("faircall.explain", id=1) * 5)
        world.run()
        world.now_ns += 300 * MS
    assert len(client.answers()) == 15
    assert len(times) == 2
