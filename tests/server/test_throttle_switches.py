"""Callers without a backlog go free, and dropped calls are charged, where a switch says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from faircall.server.admin.throttle import ThrottleStats
from faircall.server.limits import Switches
from faircall.server.rates_in_force import put_in_force
from faircall.server.reader.cancel_order import CancelOrder
from faircall.shm.budgets import COUNTED
from faircall.shm.limiter_counters import L_USED
from faircall.shm.slot_limiters import W_BUDGET
from faircall.shm.terms import Kind, key_of

from .reader_client import Client, batch, call, reasons
from .reader_world import SMALL, World

Make = Callable[..., World]
GEOMETRY = replace(SMALL, limiters=24)
S = 1_000_000_000
FREE = Switches(backlog_only=True)
CHARGED = Switches(charge_dropped=True)


@pytest.fixture
def under(make_world: Make) -> Callable[..., World]:
    """A world under switches and rates, of which a line each."""

    def make(switches: Switches, *lines: str) -> World:
        world = make_world(geometry=GEOMETRY)
        world.now_ns = 1000 * S
        put_in_force(world.shared, switches, lines, world.now_ns)
        return world

    return make


def used(world: World) -> int:
    """Calls of this period, by the server's limit."""
    limiters = world.shared.table.limiters
    row = limiters.find(key_of(Kind.SERVER))
    return limiters.q[limiters.at(row) + L_USED] & 0xFFFF_FFFF


def marked(world: World) -> int:
    """Calls in flight that are looked upon as a part of a backlog, or as none."""
    words = world.shared.table.words[list(world.reader.book.calls)]
    return int((words[:, W_BUDGET] >= COUNTED).sum())


def ask(world: World, client: Client, *ids: int) -> list[int]:
    """Send these together; the ids of all that were served so far."""
    client.send(b"".join(call("echo", [id_], id_) for id_ in ids))
    world.run()
    return served(world, client)


def served(world: World, client: Client) -> list[int]:
    assert world.shared.table.recovery.audit() == []
    return sorted(answer["id"] for answer in client.answers() if "result" in answer)


def test_calls_one_by_one_go_free_and_a_burst_is_limited(under: Callable[..., World]) -> None:
    world = under(FREE, "server: calls=2", "method echo: calls=99")
    client = world.connect()
    for id_ in range(5):
        assert ask(world, client, id_)[-1] == id_
    assert used(world) == 0
    assert ask(world, client, 5, 6, 7) == [0, 1, 2, 3, 4, 5, 6]
    assert used(world) == 2
    world.pass_ms(1000)
    world.run()
    assert served(world, client)[-1] == 7
    assert used(world) == 1, "the last of a backlog is a part of it"
    assert ask(world, client, 8)[-1] == 8
    assert used(world) == 1
    world.verify()


def test_a_caller_with_a_limit_of_its_own_goes_free_under_that_too(
    under: Callable[..., World],
) -> None:
    world = under(FREE, "callers of echo: calls=1", "server: handler-ms=1000")
    client = world.connect()
    for id_ in range(4):
        assert ask(world, client, id_)[-1] == id_
    assert ask(world, client, 4, 5) == [0, 1, 2, 3, 4]
    world.pass_ms(1000)
    world.run()
    assert len(served(world, client)) == 6
    world.verify()


def test_a_batch_is_a_backlog_of_its_calls(under: Callable[..., World]) -> None:
    world = under(replace(FREE, batches=True), "server: calls=1")
    client = world.connect()
    client.send(batch(*[call("echo", [id_], id_) for id_ in range(4)]))
    world.run()
    assert len(client.answers()[0]) == 4
    assert used(world) == 1
    client.send(batch(call("echo", [1], 1)))
    world.run()
    assert len(client.answers()) == 2
    assert used(world) == 1
    world.verify()


def test_callers_who_found_no_row_share_a_backlog(under: Callable[..., World]) -> None:
    world = under(replace(FREE, most_callers=1), "server: calls=1")
    clients = []
    for number in range(3):
        clients.append(world.connect())
        clients[-1].send(call("faircall.hello", {"user": f"user-{number}"}, 0))
        world.run()
        clients[-1].send(call("echo", [number], 1))
        world.run()
        assert used(world) == 0, "one at a time all go free"
    for client in clients:
        client.send(call("echo", [1], 2))
    world.run()
    assert [len(served(world, client)) for client in clients] == [3, 3, 2]
    assert used(world) == 1, "the two who share a row were a backlog"


def test_the_switch_counts_for_calls_that_wait_already(under: Callable[..., World]) -> None:
    world = under(Switches(), "server: calls=1")
    client = world.connect()
    assert ask(world, client, 0, 1, 2, 3) == [0]
    lines = ["server: calls=1"]
    put_in_force(world.shared, FREE, lines, world.now_ns)
    world.run()
    assert marked(world) == 3
    for last in (1, 2, 3):
        world.pass_ms(1000)
        world.run()
        assert served(world, client)[-1] == last, "they are a backlog"
    assert ask(world, client, 4)[-1] == 4, "it is alone"
    assert ask(world, client, 5, 6)[-1] == 4
    put_in_force(world.shared, Switches(), lines, world.now_ns)
    world.run()
    assert (world.states(), marked(world)) == ({"HELD": 2}, 0)
    for last in (5, 6):
        world.pass_ms(1000)
        world.run()
        assert served(world, client)[-1] == last
    assert ask(world, client, 7)[-1] == 6, "limited like any other"
    world.pass_ms(1000)
    world.run()
    world.verify()


def test_rows_that_only_count_are_no_limits_to_be_shown(under: Callable[..., World]) -> None:
    world = under(FREE, "server: calls=2")
    ask(world, world.connect(), 1)
    assert len(world.shared.table.limiters.used_rows()) == 2
    shown = ThrottleStats(world.shared).snapshot(world.now_ns)
    assert [row["limiter"] for row in shown] == ["server"]


@pytest.mark.parametrize(("switches", "charged"), [(CHARGED, 3), (Switches(), 0)])
def test_calls_that_expire_are_charged_if_they_are_to_be(
    under: Callable[..., World], switches: Switches, charged: int
) -> None:
    world = under(switches, "server: calls=9")
    client = world.connect()
    client.send(b"".join(call("echo", [n], n, meta={"timeout_ms": 5}) for n in range(3)))
    world.read()
    world.pass_ms(5)
    world.read()
    assert {reason for _, reason in reasons(client.answers())} == {"deadline_exceeded"}
    assert used(world) == charged
    world.verify()


def test_calls_of_a_closed_connection_are_charged_held_ones_too(
    under: Callable[..., World],
) -> None:
    world = under(CHARGED, "server: calls=2")
    client, other = world.connect(), world.connect()
    assert ask(world, client, 0, 1, 2, 3) == [0, 1]
    client.close()
    world.run()
    assert used(world) == 4
    assert ask(world, other, 9) == []
    world.pass_ms(1000)
    world.run()
    assert served(world, other) == [], "two of the four are a debt"
    world.pass_ms(1000)
    world.run()
    assert served(world, other) == [9]
    world.verify()


def test_cancelled_calls_are_charged_and_running_ones_once(under: Callable[..., World]) -> None:
    world = under(CHARGED, "server: calls=9")
    client = world.connect()
    client.send(call("faircall.hello", {"user": "ann"}, 0))
    world.run()
    client.send(b"".join(call("echo", [n], n) for n in range(1, 4)))
    world.read()
    slots, tokens = [0], [0]
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1
    order = CancelOrder(1, "ann")
    assert world.reader.cancel(order) == (2, 1)
    assert used(world) == 3
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    world.run()
    world.verify()


def test_a_batch_that_is_dropped_is_charged_as_one(under: Callable[..., World]) -> None:
    world = under(replace(CHARGED, batches=True), "server: calls=9")
    client = world.connect()
    client.send(batch(*[call("echo", [id_], id_) for id_ in range(6)]))
    world.read()
    client.close()
    world.run()
    assert used(world) == 1
    world.verify()


def test_a_server_that_ends_charges_nothing_for_what_it_refuses(
    under: Callable[..., World],
) -> None:
    world = under(CHARGED, "server: calls=2")
    client = world.connect()
    assert ask(world, client, 0, 1, 2, 3) == [0, 1]
    world.reader._withdrawals.turn_away()
    assert used(world) == 2
