"""One connection of the synchronous client whose other end goes away: was the call sent?"""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from faircall.client import ConnectionFailed, ConnectionLost, RemoteError
from faircall.client.attempt import Attempt
from faircall.client.connection import Connection
from faircall.client.framing import LineFraming
from faircall.client.protocol import ClientProtocol
from faircall.client.request import Request, build_request

SMALL, LARGE = ["x"], ["x" * (4 << 20)]


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket, socket.socket]]:
    """A connection, its socket, and the server's."""
    client, server = socket.socketpair()
    client.setblocking(False)
    connection = Connection(client, ClientProtocol(LineFraming(), "unix:/s"), "unix:/s")
    yield connection, client, server
    connection.close("the test is over")
    server.close()


Ends = tuple[Connection, socket.socket, socket.socket]
Kind = Callable[[list[str]], tuple[list[Request], list[Attempt]]]


def call(params: list[str]) -> tuple[list[Request], list[Attempt]]:
    request = build_request("m", params)
    return [request], [Attempt(request)]


def note(params: list[str]) -> tuple[list[Request], list[Attempt]]:
    return [build_request("m", params, notification=True)], []


def fill(sock: socket.socket) -> None:
    """Until nothing more can be written."""
    with contextlib.suppress(BlockingIOError):
        while sock.send(b"x" * (1 << 16)):
            pass


def end_after(server: socket.socket, read_bytes: int, last_words: bytes = b"") -> threading.Thread:
    """A server that takes in so many bytes and then ends the connection."""

    def work() -> None:
        if read_bytes:
            server.recv(read_bytes)
        server.sendall(last_words)
        server.close()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", [call, note])
def test_what_finds_the_connection_ended_was_not_sent(ends: Ends, kind: Kind) -> None:
    connection, _, server = ends
    server.close()
    with pytest.raises(ConnectionFailed, match="m at unix:/s: not sent: the server closed"):
        connection.send(*kind(SMALL), math.inf)
    with pytest.raises(ConnectionFailed, match="not sent"):
        connection.send(*kind(SMALL), math.inf)


@pytest.mark.parametrize("kind", [call, note])
def test_what_found_no_room_before_the_end_was_not_sent(ends: Ends, kind: Kind) -> None:
    connection, client, server = ends
    fill(client)
    thread = end_after(server, 0)
    with pytest.raises(ConnectionFailed, match="not sent"):
        connection.send(*kind(SMALL), math.inf)
    thread.join()


def test_of_what_was_sent_in_part_no_one_knows(ends: Ends) -> None:
    connection, _, server = ends
    thread = end_after(server, 1)
    requests, (attempt,) = call(LARGE)
    connection.send(requests, [attempt], math.inf)
    answer = attempt.wait(math.inf)
    thread.join()
    assert answer is not None
    assert isinstance(answer.error, ConnectionLost)


def test_of_a_notification_that_was_sent_in_part_no_one_knows(ends: Ends) -> None:
    connection, _, server = ends
    thread = end_after(server, 1)
    with pytest.raises(ConnectionLost, match="may have run or not"):
        connection.send(*note(LARGE), math.inf)
    thread.join()


def test_what_the_server_said_before_it_closed_is_the_outcome(ends: Ends) -> None:
    connection, client, server = ends
    fill(client)
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32054,"message":"too large"}}\n'
    thread = end_after(server, 0, error)
    requests, (attempt,) = call(SMALL)
    connection.send(requests, [attempt], math.inf)
    thread.join()
    assert attempt.answer is not None
    assert isinstance(attempt.answer.error, RemoteError)
