"""Connections that take too long. The clock is the test's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.server.reader.client_limits import ClientLimits
from faircall.server.reader.timeouts import LINGER_NS, Timeouts
from faircall.shm.columns import Counter

from .reader_client import Client, call, frame, post
from .reader_world import MS, World

Make = Callable[..., World]
LIMITS = Timeouts(
    first_byte_ns=60_000 * MS,
    header_ns=10_000 * MS,
    message_ns=8_000 * MS,
    send_ns=30_000 * MS,
)
PING = call("rpc.ping", id=1)
STEP_MS = 400  # often enough that no check is late


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(timeouts=LIMITS)


def wait(world: World, ms: float) -> None:
    """Time goes on, and the reader passes now and then."""
    while ms > 0:
        world.pass_ms(min(ms, STEP_MS))
        ms -= STEP_MS
        world.read()


def is_open(client: Client) -> bool:
    client.read()
    return not client.ended


def closed_slow(world: World) -> int:
    return world.count(Counter.CLOSED_SLOW)


def test_a_connection_that_never_says_a_word_is_closed(world: World) -> None:
    client = world.connect()
    wait(world, 59_000)
    assert is_open(client)
    wait(world, 2_000)
    assert not is_open(client)
    assert client.received == b""
    assert closed_slow(world) == 1


def test_after_its_first_word_it_may_be_silent(world: World) -> None:
    client = world.connect()
    client.send(PING)
    world.read()
    wait(world, 100_000)
    assert is_open(client)
    assert world.reader.clients.watched == set()


def test_a_limit_of_0_is_none(make_world: Make) -> None:
    world = make_world(timeouts=Timeouts(first_byte_ns=0, send_ns=0))
    client = world.connect()
    wait(world, 100_000)
    assert is_open(client)


@pytest.mark.parametrize("start", [b'{"a', b"Content-Le", b"Content-Length: 9\r\n\r\n{", b"POS"])
def test_silence_in_the_middle_of_a_message_ends_it(world: World, start: bytes) -> None:
    client = world.connect()
    client.send(start)
    world.read()
    wait(world, 7_600)
    assert is_open(client)
    wait(world, 1_000)
    assert not is_open(client)
    assert closed_slow(world) == 1


def test_nor_is_it_allowed_after_a_while_without_any_message(world: World) -> None:
    client = world.connect()
    client.send(PING)
    world.read()
    wait(world, 100_000)
    client.send(b'{"half')
    world.read()
    wait(world, 9_000)
    assert not is_open(client)


def test_http_says_so(world: World) -> None:
    client = world.connect()
    client.send(post(PING)[:-5])
    wait(world, 9_000)
    assert client.read().startswith(b"HTTP/1.1 408 ")
    assert not is_open(client)
    assert (closed_slow(world), world.count(Counter.CLOSED_PROTOCOL)) == (1, 0)


def test_a_trickle_is_too_slow(world: World) -> None:
    client = world.connect()
    client.send(b"[")
    for _ in range(20):
        wait(world, 1_000)
        if is_open(client):
            client.send(b" ")
    assert not is_open(client)


def test_a_long_message_may_take_its_time(world: World) -> None:
    client = world.connect()
    client.send(b'{"jsonrpc":"2.0","id":1,"method":"rpc.ping","params":["')
    for _ in range(14):
        client.send(b"x" * 18_000)
        wait(world, 1_000)
    client.send(b'"]}\n')
    world.read()
    assert client.answers()[0]["result"] == "pong"


def test_a_busy_client_whose_reads_end_in_the_middle_is_not_slow(world: World) -> None:
    """There is a part of a message in hand at every moment, but never the same."""
    client, half = world.connect(), len(PING) // 2
    client.send(PING[:half])
    for _ in range(40):
        wait(world, 500)
        client.send(PING[half:] + PING[:half])
    world.read()
    assert is_open(client)
    assert len(client.answers()) == 40


def test_who_is_not_read_is_not_slow(make_world: Make) -> None:
    world = make_world(timeouts=LIMITS, limits=ClientLimits(max_in_flight=1))
    client, request = world.connect(), call("echo", id=1)
    client.send(request[:5])
    world.read()
    client.send(request[5:] + PING[:-5])
    for _ in range(3):
        world.read()
    assert world.connection().stopped
    wait(world, 20_000)
    assert is_open(client)
    world.run()
    wait(world, 5_000)
    client.send(PING[-5:])
    world.run()
    assert [each["id"] for each in client.answers()] == [1, 1]


def test_what_was_asked_before_is_still_answered(world: World) -> None:
    client = world.connect()
    client.send(call("seen", id=1) + b'{"half')
    world.read()
    wait(world, 9_000)
    assert client.read() == b""
    assert is_open(client)
    world.run()
    assert [each["id"] for each in client.answers()] == [1]
    assert not is_open(client)


def test_a_client_that_takes_nothing_is_closed(world: World) -> None:
    client = world.connect()
    client.send(call("big", [400_000], 1))
    world.run()
    assert world.connection().stalled
    wait(world, 29_000)
    assert len(world.reader.clients.by_fd) == 1
    wait(world, 2_000)
    assert world.reader.clients.by_fd == {}
    assert closed_slow(world) == 1
    assert len(client.read()) < 400_000


def test_one_that_takes_a_little_is_not(world: World) -> None:
    client = world.connect()
    client.send(call("big", [400_000], 1))
    world.run()
    taken = 0
    for _ in range(8):
        wait(world, 25_000)
        taken += len(client.sock.recv(50_000))
    assert taken > 200_000  # at first less than the socket has to be rid of to take more
    assert closed_slow(world) == 0
    assert len(world.reader.clients.by_fd) == 1


def test_an_idle_connection_is_closed_if_it_may_not_be_idle(make_world: Make) -> None:
    world = make_world(timeouts=Timeouts(idle_ns=5_000 * MS))
    idle, busy, waiting = world.connect(), world.connect(), world.connect()
    idle.send(PING)
    waiting.send(call("seen", id=1))
    for _ in range(8):
        busy.send(PING)
        wait(world, 1_000)
    assert not is_open(idle)
    assert is_open(busy)
    world.run()
    assert [each["id"] for each in waiting.answers()] == [1]
    assert is_open(waiting)  # it was not idle while it waited


def test_after_the_last_word_the_clients_end_is_waited_for_a_little(world: World) -> None:
    client = world.connect()
    client.send(b"garbage\n")
    world.read()
    assert b"-32700" in client.read()
    assert client.ended
    client.send(b"more")
    wait(world, LINGER_NS / MS - 400)
    assert len(world.reader.clients.by_fd) == 1
    wait(world, 1_000)
    assert world.reader.clients.by_fd == {}
    assert closed_slow(world) == 0


def test_a_reader_that_was_stopped_itself_blames_nobody(world: World) -> None:
    silent, half = world.connect(), world.connect()
    half.send(b'{"half')
    world.read()
    stalled = world.connect()
    stalled.send(call("big", [400_000], 1))
    world.run()
    world.pass_ms(3_600_000)  # all processes were frozen
    world.read()
    assert len(world.reader.clients.by_fd) == 3
    wait(world, 9_000)
    assert (is_open(silent), is_open(half)) == (True, False)


def test_nothing_is_looked_at_while_nobody_is_watched(world: World) -> None:
    client = world.connect()
    client.send(frame(PING))
    world.run()
    wait(world, 1_200)
    assert world.reader._timeouts.next_ns == 1 << 63
