"""What a connection has to send, and when it is over."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from faircall.server.reader.callers import Caller
from faircall.server.reader.connection import Connection
from faircall.server.reader.peers import Peer
from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Message
from faircall.server.wire.limits import WireLimits

from .reader_client import Client, call, rounds

REQUEST = call("echo", ["x"], 1)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


@pytest.fixture
def client(ends: tuple[socket.socket, socket.socket]) -> Client:
    return Client(ends[0])


@pytest.fixture
def connection(ends: tuple[socket.socket, socket.socket]) -> Connection:
    ends[1].setblocking(False)
    peer, touched = Peer("anna", trusted=False), set[Connection]()
    return Connection(ends[1], Wire(WireLimits()), peer, Caller("anna"), touched, 5)


def ask(connection: Connection, data: bytes = REQUEST) -> int:
    """One message has arrived: its exchange."""
    connection.wire.receive(data)
    event = connection.wire.next_event()
    assert isinstance(event, Message)
    return event.exchange


def test_what_was_put_is_sent_in_one_piece(connection: Connection, client: Client) -> None:
    for piece in (b"a", b"", b"b", b"c"):
        connection.put(piece)
    assert connection.unsent == 3
    assert connection.flush() == 3
    assert (client.read(), connection.unsent) == (b"abc", 0)


def test_what_the_socket_does_not_take_follows_later_in_order(
    connection: Connection, client: Client
) -> None:
    sent = b""
    for number in range(40):
        piece = bytes([number]) * 100_000
        connection.put(piece)
        sent += piece
        if number % 3 == 0:
            connection.flush()
    assert 0 < connection.unsent < len(sent)
    for _ in rounds("it does not send"):
        client.read()
        if not connection.flush():
            break
    assert client.read() == sent


def test_sending_nothing_is_no_progress(connection: Connection, client: Client) -> None:
    connection.put(b"x" * 10_000_000)
    assert connection.flush() > 0
    assert connection.flush() == 0


def test_a_long_answer_that_was_sent_is_not_kept(connection: Connection, client: Client) -> None:
    connection.put(b"x" * 1_000_000)
    for _ in range(100):
        connection.flush()
        client.read()
    assert type(connection._rest) is bytes  # and not an empty view of all that was sent
    assert connection._rest == b""
    assert connection._chunks == []


def test_a_client_that_is_gone_is_an_error(connection: Connection, client: Client) -> None:
    client.close()
    connection.put(b"x")
    with pytest.raises(BrokenPipeError):
        connection.flush()


def test_an_answer_is_framed_and_the_pass_will_look_at_it(
    connection: Connection, client: Client
) -> None:
    exchange = ask(connection)
    assert connection._touched == set()
    connection.answer(exchange, b"{}")
    assert connection._touched == {connection}
    connection.flush()
    assert client.read() == b"{}\n"


def test_it_is_over_when_all_is_answered_and_sent(connection: Connection, client: Client) -> None:
    exchange = ask(connection)
    connection.wire.receive_eof()
    assert connection.wire.next_event() is None
    assert not connection.is_over  # an answer is due
    connection.answer(exchange, b"{}")
    assert not connection.is_over  # and to be sent
    connection.flush()
    assert connection.is_over


def test_an_open_connection_is_not_over(connection: Connection) -> None:
    assert not connection.is_over


def test_what_it_holds_counts_for_whom_it_calls_now(connection: Connection) -> None:
    before, after = connection.caller, Caller("bert")
    before.unfinished = connection.buffered = 10
    connection.become(after)
    assert (before.unfinished, after.unfinished) == (0, 10)
    assert connection.caller is after
    assert connection.claimed
