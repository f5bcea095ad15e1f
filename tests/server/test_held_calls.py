"""Held calls in a reader: floods of one method, clients that are gone, a server that ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from faircall.server.limits import Switches
from faircall.server.rates_in_force import put_in_force
from faircall.server.reader.client_limits import ClientLimits
from faircall.shm.columns import Counter
from faircall.shm.states import Phase

from .reader_client import Client, batch, call, reasons
from .reader_world import MS, POLICY, SMALL, World
from .test_clients_ends import reset

Make = Callable[..., World]
S = 1_000_000_000
GEOMETRY = replace(SMALL, limiters=24, identities=96, slots=1024, turns=1024, small_pages=1200)
ROOM = 100
FLOODED = replace(POLICY, capacities=(2 * ROOM,) * 4, max_principal=500, held_share=500)


@pytest.fixture
def throttled(make_world: Make) -> Callable[..., World]:
    """A world under rates, of which a line each."""

    def make(*lines: str, **how: object) -> World:
        world = make_world(**({"geometry": GEOMETRY, "policy": FLOODED} | how))
        world.now_ns = 1000 * S
        put_in_force(world.shared, Switches(), lines, world.now_ns)
        return world

    return make


def named(world: World, name: str) -> Client:
    client = world.connect()
    client.send(call("faircall.hello", {"user": name}, 0))
    world.run()
    client.answers()
    return client


def held(world: World) -> int:
    return world.states().get("HELD", 0)


def test_a_neighbour_is_served_while_fifty_callers_flood_a_limited_method(
    throttled: Callable[..., World],
) -> None:
    world = throttled("method echo: calls=10")
    flood = [named(world, f"user-{number}") for number in range(50)]
    neighbour = named(world, "neighbour")
    for round_ in range(1, 11):
        for client in flood:
            client.send(call("echo", [0], round_) * 5)
        neighbour.send(call("seen", [], round_))
        world.run()
        assert len(neighbour.answers()) == round_ + 1, "no wait, no refusal"
    assert held(world) == ROOM
    refused = [each for client in flood for each in client.answers() if "error" in each]
    assert {each["error"]["code"] for each in refused} == {-32005}
    assert {each["error"]["data"]["reason"] for each in refused} == {"throttled"}
    assert all(each["error"]["data"]["retriable"] for each in refused)
    assert {each["error"]["data"]["retry_after_ms"] for each in refused} == {1000}
    assert len(refused) == 2500 - 10 - ROOM == world.count(Counter.THROTTLED)
    for _ in range(ROOM // 10):
        world.pass_ms(1000)
        world.run()
    assert sum(len(client.answers()) for client in flood) == 2550
    world.finish()


def test_what_came_before_the_limiter_held_any_is_refused_by_the_claim(
    throttled: Callable[..., World],
) -> None:
    """Batches, undecoded and notified calls, too; time costs and levels are none of it."""
    world = throttled("method echo: calls=1")
    client = world.connect()
    ids = range(1, 2 * ROOM)
    client.send(batch(*[call("echo", [id_], id_) for id_ in ids]))
    client.send(b"".join(call("echo", [0]) for _ in range(3)))  # notifications
    world.run()
    assert held(world) == ROOM // 2
    assert client.answers() == [], "a part of the batch waits"
    for _ in range(ROOM):
        world.pass_ms(1000)
        world.run()
    (answers,) = client.answers()
    ends = [end for _, end in reasons(answers)]
    assert (len(ends), {*ends}) == (len(ids), {"ok", "throttled"})
    assert ends.count("ok") in range(ROOM // 2 - 2, ROOM // 2 + 2)
    world.finish()


def test_an_open_limiter_says_when_others_will_have_gone(throttled: Callable[..., World]) -> None:
    """It is full until a call ends: then nobody can tell a time."""
    world = throttled("method echo: running=1")
    slots, tokens = [0], [0]
    client = world.connect()
    client.send(call("echo", [0], 1))
    world.read()
    assert world.shared.table.claim(1, world.now_ns, slots, tokens) == 1
    client.send(b"".join(call("echo", [0], id_) for id_ in range(2, ROOM)))
    for _ in range(8):  # passes
        world.read()
    world.handle()
    world.read()
    refused = [each["error"]["data"] for each in client.answers()]
    assert refused
    assert min(data["retry_after_ms"] for data in refused) >= 10
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    world.run()
    assert len(client.answers()) == ROOM - 1
    world.finish()


# -- clients that are gone -------------------------------------------------------------------------

FEW = ClientLimits(max_in_flight=4)


@pytest.mark.parametrize("tcp", [True, False])
def test_held_calls_of_a_client_that_is_gone_are_dropped_though_it_is_not_read(
    throttled: Callable[..., World], tcp: bool
) -> None:
    world = throttled("method echo: calls=1 period-s=60", limits=FEW)
    client = world.connect(tcp=tcp)
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(1, 10)))
    for _ in range(20):
        world.read()
        world.handle()
    assert world.connection().stopped
    assert held(world) == 4
    reset(client) if tcp else client.close()
    world.run()
    assert world.reader.clients.by_fd == {}
    assert world.count(Counter.DROPPED) == 4
    world.finish()


def test_a_client_that_only_ends_its_half_is_answered_though_it_is_not_read(
    throttled: Callable[..., World],
) -> None:
    world = throttled("method echo: calls=2", limits=FEW)
    for tcp in (True, False):
        client = world.connect(tcp=tcp)
        client.send(b"".join(call("echo", [id_], id_) for id_ in range(1, 10)))
        client.half_close()
        for _ in range(6):
            world.run()
            world.pass_ms(1000)
        assert sorted(each["result"] for each in client.answers()) == list(range(1, 10))
        assert client.ended
    world.finish()


def test_who_is_found_gone_by_an_answer_keeps_no_other_call(
    throttled: Callable[..., World],
) -> None:
    """As of a client that was killed: its system has closed both halves, and says so when asked."""
    world = throttled("method echo: calls=1 period-s=60")
    client = world.connect(tcp=True)
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(1, 5)))
    world.read()
    client.close()
    world.run()
    for _ in range(100):  # the system's answer to the first answer
        if not world.reader.clients.by_fd:
            break
        world.reader._attend(world.reader._sources.poll(0.1), world.now_ns)
    world.run()
    assert world.reader.clients.by_fd == {}
    assert held(world) == 0
    world.finish()


# -- a server that ends ----------------------------------------------------------------------------


def drain(world: World, grace_ms: int) -> None:
    live = replace(world.settings.live, grace_ns=grace_ms * MS)
    world.reader.configure(live)
    world.shared.phase.set(Phase.DRAINING, world.now_ns)


def test_what_opens_behind_the_grace_period_is_refused_and_the_rest_served(
    throttled: Callable[..., World],
) -> None:
    world = throttled("method echo: calls=2", "method seen: calls=1 period-s=60")
    client = world.connect()
    client.send(b"".join(call("echo", [id_], id_) for id_ in range(1, 13)))
    client.send(call("seen", [], 20) + call("seen", [], 21))
    world.run()
    assert (len(client.answers()), held(world)) == (3, 11)
    drain(world, grace_ms=2500)
    world.run()
    refused = [id_ for id_, why in reasons(client.answers()) if why == "shutting_down"]
    assert sorted(refused) == [7, 8, 9, 10, 11, 12, 21]
    assert all(each["error"]["data"]["retriable"] for each in client.answers() if "error" in each)
    for _ in range(2):
        world.pass_ms(1000)
        world.run()
    served = [each["id"] for each in client.answers() if "result" in each]
    assert sorted(served) == [1, 2, 3, 4, 5, 6, 20]
    assert world.row("quiet") == 1
    world.finish()


def test_a_call_that_began_meanwhile_is_not_refused(throttled: Callable[..., World]) -> None:
    world = throttled("method echo: calls=1 period-s=60")
    client = world.connect()
    client.send(call("echo", [1], 1))
    world.read()
    slots, tokens, table = [0], [0], world.shared.table
    assert table.claim(1, world.now_ns, slots, tokens) == 1
    outcomes = [0]
    table.withdraw(0, slots, outcomes, begun=False)
    world.handlers[1]._serve(slots[0], tokens[0])
    world.handlers[1]._publish()
    world.run()
    assert [each["result"] for each in client.answers()] == [1]
    world.finish()
