"""How connections end, and that nothing is left of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest

from faircall.server.reader.client_limits import ClientLimits
from faircall.server.wire.limits import WireLimits
from faircall.shm.columns import Counter

from .reader_client import Client, call, frame, post
from .reader_world import World

Make = Callable[..., World]
PING = call("rpc.ping", id=1)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


def pings(count: int) -> bytes:
    return PING * count


def reset(client: Client) -> None:
    """Its end of a TCP connection is gone, with a reset."""
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()


@pytest.mark.parametrize("framing", ["lines", "lsp", "http"])
def test_after_half_a_close_what_was_asked_is_answered(world: World, framing: str) -> None:
    client, message = world.connect(), call("echo", ["x"], 1)
    client.send({"lines": message, "lsp": frame(message), "http": post(message)}[framing])
    client.half_close()
    for _ in range(2):
        world.read()
    assert not client.ended
    assert world.reader.poll() == []  # its end is not looked at again and again
    world.handle()
    world.read()
    assert b'"result":"x"' in client.read()
    assert world.reader.clients.by_fd == {}
    assert client.ended
    assert world.count(Counter.CLOSED_PROTOCOL) == 0
    world.verify()


def test_the_last_line_needs_no_newline(world: World) -> None:
    client = world.connect()
    client.send(call("echo", ["x"], 1).rstrip())
    world.run()
    assert client.answers() == []
    client.half_close()
    world.run()
    assert client.answers()[0]["result"] == "x"
    assert client.ended


def test_notifications_before_a_close_are_done(world: World) -> None:
    client = world.connect()
    client.send(call("seen") * 3)
    client.close()
    world.run()
    assert len(world.seen) == 3
    world.finish()


def test_a_client_that_leaves_leaves_nothing(world: World) -> None:
    for framed in (call("big", [9000], 1), post(call("big", [9000], 1)), b"", b"{", b"POST / HT"):
        client = world.connect()
        client.send(framed)
        client.close()
    world.run()
    world.finish()


def test_a_reset_gives_its_calls_up_at_once(world: World) -> None:
    client = world.connect(tcp=True)
    client.send(call("seen", id=1))
    world.read()
    reset(client)
    world.read()
    assert world.reader.clients.by_fd == {}
    assert world.count(Counter.DROPPED) == 1
    world.run()
    assert world.seen == []
    world.finish()


def test_a_reset_while_it_waits_for_its_turn_is_noticed_at_its_turn(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(calls_per_pass=1))
    client = world.connect(tcp=True)
    client.send(call("seen", id=1) * 300)
    world.read()
    assert world.connection().queued
    reset(client)
    world.run()
    world.finish()


def test_a_hang_up_without_input_ends_a_connection_that_waits(world: World) -> None:
    client = world.connect()
    client.send(pings(300))
    world.read()
    connection = world.connection()
    assert connection.queued
    world.reader.clients.on_event(connection, 16, world.now_ns)  # EPOLLHUP alone
    assert not world.reader.clients.ready
    del connection
    world.finish()


def test_a_new_connection_may_have_the_descriptor_of_one_closed_in_the_same_pass(
    world: World,
) -> None:
    old = world.connect(tcp=True)
    old.send(call("seen", id=1))
    world.read()
    fd = world.connection().fd
    reset(old)
    new = world.knock()
    new.send(call("echo", ["new"], 2))
    world.read()
    assert world.connection().fd == fd
    world.run()
    assert [each["result"] for each in new.answers()] == ["new"]
    world.finish()


def test_a_copy_of_a_closed_connection_elsewhere_troubles_nobody(world: World) -> None:
    """The acceptor's, for instance, when it is stopped before it closes its own."""
    client = world.connect()
    copy = world.connection().sock.dup()
    with copy:
        world.reader.clients.close(world.connection())
        client.send(PING)
        assert world.reader.poll() == []


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"x", b'"code":-32700'),
        (b"\x16\x03\x01", b""),
        (b"{" + b"x" * 60_000, b'"code":-32054'),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n", b"HTTP/1.1 413"),
        (b"POST / HTTP/3.0\r\n\r\n", b"HTTP/1.1 505"),
        (b"Content-Length: x\r\n\r\n", b'"code":-32700'),
    ],
)
def test_what_cannot_be_followed_is_told_so_and_ends(
    make_world: Make, start: bytes, said: bytes
) -> None:
    world = make_world(wire=WireLimits(max_message_bytes=50_000))
    client = world.connect(tcp=True)
    client.send(start)
    world.run()
    client.send(b"y" * 1000)  # which it had begun to send
    world.run()
    assert said in client.read()
    assert client.ended
    assert not client.reset
    assert world.count(Counter.CLOSED_PROTOCOL) == bool(said)
    world.finish()


def test_calls_before_the_fault_are_answered(make_world: Make) -> None:
    world = make_world(wire=WireLimits(max_message_bytes=50_000))
    client = world.connect()
    client.send(call("echo", id=1))
    world.send(client, b"{" + b"x" * 60_000)
    world.run()
    codes = [each.get("error", {}).get("code") for each in client.answers()]
    assert sorted(codes, key=str) == [-32054, None]
    assert client.ended


def test_http_may_ask_for_the_end(world: World) -> None:
    client = world.connect()
    client.send(post(call("echo", ["x"], 1), Connection="close") + post(PING))
    world.run()
    assert len(client.bodies()) == 1
    assert b"Connection: close" in client.read()
    assert client.ended
    assert world.count(Counter.CLOSED_PROTOCOL) == 0
    world.finish()
