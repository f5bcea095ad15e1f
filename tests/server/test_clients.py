"""Reading, taking, sending and closing: what a connection gets, and what it cannot do to others."""

from __future__ import annotations

import dataclasses
import json
import socket
import struct
from collections.abc import Callable

import pytest

from faircall.server.client_limits import ClientLimits
from faircall.server.clients import RECEIVE_BYTES
from faircall.server.wire.limits import WireLimits
from faircall.shm.columns import Counter
from faircall.shm.states import Phase

from .reader_world import SMALL, Client, World, batch, call, frame, post, reasons

Make = Callable[..., World]
PING = call("rpc.ping", id=1)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


def pings(count: int) -> bytes:
    return PING * count


def reset(client: Client) -> None:
    """Its end of a TCP connection is gone, with a reset."""
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()


def buffered(world: World) -> int:
    return world.connection().wire.buffered


# -- turns ---------------------------------------------------------------------------------------


def test_a_turn_is_a_few_calls(world: World) -> None:
    client = world.connect()
    client.send(pings(40))
    clients = world.reader.clients
    clients.on_event(world.connection(), 1, world.now_ns)
    turns = []
    while clients.ready:
        turns.append(clients.serve(clients.ready.next(), world.now_ns))
    assert turns == [16, 16, 8]


def test_a_turn_is_a_few_bytes(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(bytes_per_pass=1000))
    client = world.connect()
    client.send(call("rpc.ping", ["x" * 600], 1) * 5)
    clients = world.reader.clients
    clients.on_event(world.connection(), 1, world.now_ns)
    turns = []
    while clients.ready:
        turns.append(clients.serve(clients.ready.next(), world.now_ns))
    assert turns == [2, 2, 1]


def test_who_sends_much_does_not_keep_who_sends_little(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(calls_per_pass=4))
    greedy, modest = world.connect(), world.connect()
    modest.send(call("faircall.hello", ["modest"]))
    world.read()
    greedy.send(pings(1000))
    world.read()
    modest.send(PING)
    world.read()
    assert len(modest.answers()) == 1
    assert len(greedy.answers()) < 500


def test_who_waits_for_a_turn_is_not_read(world: World) -> None:
    client = world.connect()
    most, left = 0, pings(5000)
    while left or world.reader.clients.ready:
        left = left[client.try_send(left) :]
        world.read()
        client.read()
        most = max(most, buffered(world))
    assert RECEIVE_BYTES / 2 < most <= RECEIVE_BYTES + len(PING)
    world.run()
    assert len(client.answers()) == 5000


def test_a_client_may_pipeline_more_than_it_may_leave_unfinished(make_world: Make) -> None:
    limits = ClientLimits(max_unfinished_of_connection=100_000, max_unfinished_of_caller=100_000)
    world = make_world(limits=limits)
    client = world.connect()
    left = call("echo") * 10_000
    while left or world.reader.clients.ready:
        left = left[client.try_send(left) :]
        world.read()
    assert not client.ended
    client.send(PING)
    world.run()
    assert client.answers()[-1]["result"] == "pong"


# -- limits in flight ------------------------------------------------------------------------------


def test_so_many_calls_may_be_in_flight(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_in_flight=3))
    client = world.connect()
    client.send(b"".join(call("echo", id=id_) for id_ in range(8)))
    for _ in range(3):
        world.read()
    assert len(world.reader.book.calls) == 3
    world.handle()
    world.run()
    assert sorted(reasons(client.answers())) == [(id_, "ok") for id_ in range(8)]
    world.verify()


def test_the_items_of_batches_count_one_by_one(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_in_flight=3))
    client = world.connect()
    client.send(batch(*[call("echo", id=id_) for id_ in range(4)]) + call("echo", id=9))
    for _ in range(3):
        world.read()
    assert len(world.reader.book.calls) == 4
    world.run()
    assert len(client.answers()) == 2


def test_so_many_http_requests_may_be_pipelined(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(http_pipelining=2))
    client = world.connect()
    client.send(b"".join(post(call("echo", [id_], id_)) for id_ in range(7)))
    for _ in range(3):
        world.read()
    assert len(world.reader.book.calls) == 2
    world.run()
    assert [json.loads(body)["id"] for body in client.bodies()] == list(range(7))
    world.verify()


def test_http_answers_leave_in_the_order_of_the_requests(world: World) -> None:
    client = world.connect()
    client.send(post(call("seen", id=1)) + post(call("rpc.ping", id=2)) + post(call("echo")))
    world.read()
    assert client.read() == b""
    world.run()
    ids = [json.loads(body)["id"] if body else None for body in client.bodies()]
    assert ids == [1, 2, None]


# -- unsent answers --------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_not_read_either(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(unsent_high_water_bytes=10_000, max_in_flight=4))
    client = world.connect()
    requests = b"".join(call("big", [30_000], id_) for id_ in range(100))
    left = requests
    for _ in range(60):
        left = left[client.try_send(left) :]
        world.read()
        world.handle()
    connection = world.connection()
    assert connection.stopped
    assert connection.stalled
    assert len(world.reader.book.calls) == 0
    assert connection.unsent < 300_000
    while left:
        left = left[client.try_send(left) :]
        client.read()
        world.run()
    client.read()
    world.run()
    while world.connection().unsent:
        client.read()
        world.run()
    assert sorted(each["id"] for each in client.answers()) == list(range(100))
    world.verify()


def test_a_client_that_lets_too_much_pile_up_is_closed(make_world: Make) -> None:
    world = make_world(limits=ClientLimits(max_unsent_bytes=100_000))
    client = world.connect()
    client.send(b"".join(call("big", [60_000], id_) for id_ in range(8)))
    world.run()
    assert world.reader.clients.by_fd == {}
    assert world.count(Counter.CLOSED_SLOW) == 1
    world.verify()


def test_one_answer_may_be_as_long_as_the_socket_is_slow(world: World) -> None:
    client = world.connect()
    client.send(call("big", [400_000], 1))
    world.run()
    assert world.connection().stalled
    while world.connection().unsent:
        client.read()
        world.run()
    assert len(client.answers()[0]["result"]) == 400_000
    assert not world.connection().stalled


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
    while world.connection().unsent:
        client.read()
        world.run()
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


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["lines", "lsp", "http"])
def test_after_half_a_close_what_was_asked_is_answered(world: World, framing: str) -> None:
    client, message = world.connect(), call("echo", ["x"], 1)
    client.send({"lines": message, "lsp": frame(message), "http": post(message)}[framing])
    client.half_close()
    world.read()
    assert not client.ended
    world.run()
    assert b'"result":"x"' in client.read()
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


# -- what the protocol itself says -------------------------------------------------------------------


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
