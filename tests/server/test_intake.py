"""Messages that are long, slow, unfinished, or answered by the protocol itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from faircall.server.reader.client_limits import ClientLimits
from faircall.shm.columns import Counter
from faircall.shm.states import Phase

from .reader_client import call, frame, post
from .reader_world import SMALL, World

Make = Callable[..., World]
PING = call("rpc.ping", id=1)


# -- long messages ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("framing", ["lines", "lsp", "http"])
def test_the_longest_message_goes_through_in_every_framing(make_world: Make, framing: str) -> None:
    world = make_world(geometry=dataclasses.replace(SMALL, large_pages=520))
    client, size = world.connect(), (16 << 20) - 100
    message = call("echo", ["x" * size], 1)
    framed = {"lines": message, "lsp": frame(message), "http": post(message)}[framing]
    assert len(message) <= 16 << 20
    world.send(client, framed)
    world.run()
    world.drain(client)
    body = client.read()
    assert body.count(b"x" * size) == 1
    assert b'"result"' in body[:200]
    world.verify()


@pytest.mark.parametrize("framing", ["lines", "lsp", "http"])
def test_a_message_may_arrive_byte_by_byte(world: World, framing: str) -> None:
    client, message = world.connect(), call("echo", ["x"], 1)
    framed = {"lines": message, "lsp": frame(message), "http": post(message)}[framing]
    for at in range(len(framed)):
        client.send(framed[at : at + 1])
        world.run()
    assert b'"result":"x"' in client.read()
    world.verify()


def test_a_connection_may_not_leave_too_much_unfinished(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_unfinished_of_connection=50_000))
    client = world.connect()
    world.send(client, b'{"' + b"x" * 60_000)
    world.read()
    assert world.reader.clients.by_fd == {}
    assert world.count(Counter.CLOSED_PROTOCOL) == 1
    assert world.reader.clients.unfinished.held == 0


@pytest.mark.parametrize("limit", ["max_unfinished_of_caller", "max_unfinished_of_reader"])
def test_nor_may_all_of_a_caller_or_all_together(make_world: Make, limit: str) -> None:
    limits = dataclasses.replace(ClientLimits(), **{limit: 50_000})
    world = make_world(limits=limits)
    one, other = world.connect(), world.connect()
    for client in (one, other):
        client.send(b'{"' + b"x" * 30_000)
        world.read()
    assert len(world.reader.clients.by_fd) == 1
    one.send(b'":1}\n' + PING)
    world.run()
    assert one.answers()[-1]["result"] == "pong"
    assert world.reader.clients.unfinished.held == 0


def test_what_a_user_leaves_unfinished_is_that_users(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_unfinished_of_caller=50_000))
    for name in ("anna", "bert"):
        client = world.connect()
        client.send(call("faircall.hello", [name]) + b'{"' + b"x" * 30_000)
        world.read()
    assert len(world.reader.clients.by_fd) == 2
    assert world.reader.callers.get("anna", 0).unfinished == 30_002


# -- what the protocol itself says -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "live", "ready"),
    [
        (Phase.STARTING, b"200", b"503"),
        (Phase.RUNNING, b"200", b"200"),
        (Phase.LEAVING, b"200", b"503"),
        (Phase.DRAINING, b"200", b"503"),
    ],
)
def test_probes_are_answered_without_the_queue(
    world: World, phase: Phase, live: bytes, ready: bytes
) -> None:
    world.shared.phase.set(phase, 0)
    client = world.connect()
    for path in (b"livez", b"readyz"):
        client.send(b"GET /%b HTTP/1.1\r\nHost: h\r\n\r\n" % path)
    world.read()
    assert [part[:3] for part in client.read().split(b"HTTP/1.1 ")[1:]] == [live, ready]


def test_a_flood_of_probes_has_turns_like_calls(world: World) -> None:
    client = world.connect()
    client.send(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n" * 1000)
    world.read()
    assert len(client.bodies()) <= 144
    world.run()
    assert len(client.bodies()) == 1000


def test_a_body_is_asked_for(world: World) -> None:
    client, request = world.connect(), post(PING, Expect="100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    world.run()
    assert client.read() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.forget()
    client.send(body)
    world.run()
    assert b"pong" in client.read()


def test_bytes_and_connections_are_counted(world: World) -> None:
    client = world.connect()
    client.send(PING)
    world.run()
    assert world.count(Counter.CONNECTIONS) == 1
    assert world.count(Counter.BYTES_IN) == len(PING)
    assert world.count(Counter.BYTES_OUT) == len(client.read())
