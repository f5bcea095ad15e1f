"""The synchronous client when the time, the connection or the client itself ends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from faircall.client import (
    Client,
    ConnectionLost,
    DeadlineExceeded,
    InvalidAnswer,
    RemoteError,
)

from .exchanges import receive, result

if TYPE_CHECKING:
    from .conftest import Peer, Serve

MIB = 1 << 20
STREAMS = ["tcp", "unix"]


def test_a_server_that_takes_nothing_in_is_given_up_at_the_deadline(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), "here"))
        peer.gate.wait()

    with Client(serve(script).address) as client:
        assert client.call("m") == "here"
        with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.05 s"):
            client.call("m", "x" * (16 * MIB), timeout=0.05)
        assert client.call("m") == "here"


@pytest.mark.parametrize("part", [b"", b"{", b'{"jsonrpc":"2.0","id":1,"result":"whole'])
@pytest.mark.parametrize("kind", STREAMS)
def test_a_server_that_dies_fails_the_calls_under_way_and_the_next_connects_anew(
    serve: Serve, kind: str, part: bytes
) -> None:
    def script(peer: Peer) -> None:
        requests = receive(peer, 2 if peer.number == 0 else 1)
        if peer.number == 0:
            peer.send_raw(part)
        else:
            peer.send(result(requests[0], "here"))

    server = serve(script, kind)
    with Client(server.address) as client:
        lost = [client.submit("one"), client.submit("two")]
        for future in lost:
            with pytest.raises(ConnectionLost, match=f"at {server.address}: the server closed"):
                future.result()
        assert client.call("three") == "here"
    assert server.connections == 2


def test_an_http_server_that_dies_in_the_middle_of_an_answer(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        peer.send_raw(b'HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"id"')

    server = serve(script, "http")
    with Client(server.address) as client, pytest.raises(ConnectionLost, match="in the middle"):
        client.call("m")


def test_a_connection_closed_while_idle_is_noticed_before_the_next_call(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), peer.number))

    server = serve(script, "unix")
    with Client(server.address) as client:
        for number in range(3):
            assert client.call("m") == number
            server.ended.acquire()
    assert server.connections == 3


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_a_stranger_at_the_address_is_recognised(serve: Serve, kind: str) -> None:
    def script(peer: Peer) -> None:
        peer.send_raw(b"SSH-2.0-OpenSSH_9.9\r\n")
        peer.receive()

    server = serve(script, kind)
    with Client(server.address) as client, pytest.raises(InvalidAnswer) as caught:
        client.call("m")
    assert str(caught.value).startswith(f"m at {server.address}")
    assert "SSH-2.0-OpenSSH_9.9" in str(caught.value)


def test_a_call_whose_time_is_over_leaves_the_connection_to_the_others(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), "connected"))
        for request in reversed(receive(peer, 2)):
            peer.send(result(request, request["method"]))
        peer.send(result(peer.receive(), "third"))

    server = serve(script)
    with Client(server.address) as client:
        assert client.call("m") == "connected"
        with pytest.raises(DeadlineExceeded, match=r"first at .*: no answer within 0\.02 s"):
            client.call("first", timeout=0.02)
        assert client.call("second") == "second"
        assert client.call("third") == "third"
    assert server.connections == 1


@pytest.mark.parametrize("kind", STREAMS)
def test_a_message_refused_before_it_was_read_says_why(serve: Serve, kind: str) -> None:
    refusal = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32054,"message":"too large"}}\n'

    def script(peer: Peer) -> None:
        peer.send_raw(refusal)

    with Client(serve(script, kind).address) as client, pytest.raises(RemoteError) as caught:
        client.call("m", "x" * (4 * MIB))
    assert caught.value.code == -32054


def test_closing_ends_the_calls_under_way_and_refuses_new_ones(serve: Serve) -> None:
    received = threading.Event()

    def script(peer: Peer) -> None:
        receive(peer, 2)
        received.set()
        peer.receive()

    client = Client(serve(script).address)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.call, "m") for _ in range(2)]
        assert received.wait(60)
        client.close()
        for waiter in waiting:
            assert "closed by this client" in str(waiter.exception())
            assert isinstance(waiter.exception(), ConnectionLost)
    with pytest.raises(RuntimeError, match="has been closed"):
        client.call("m")
    client.close()
