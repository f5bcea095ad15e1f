"""How the synchronous client gets a connection, and says who is calling."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import (
    Client,
    ConnectionFailed,
    ConnectionLost,
    RemoteError,
)

from .exchanges import receive, result

if TYPE_CHECKING:
    from .conftest import Peer, Serve

STREAMS = ["tcp", "unix"]


def test_no_server_is_a_failed_connection(nowhere: str, tmp_path: Path) -> None:
    for address in (nowhere, f"unix:{tmp_path}/none", f"unix:/{'x' * 200}"):
        with (
            Client(address, retry=None) as client,
            pytest.raises(ConnectionFailed, match=address),
        ):
            client.call("m")


def test_a_server_that_accepts_no_one_is_a_failed_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as queued:
        listener.bind(path)
        listener.listen(0)
        queued.connect(path)
        with (
            Client(f"unix:{path}", connect_timeout=0.02, retry=None) as client,
            pytest.raises(ConnectionFailed, match=r"no connection within 0\.02 s"),
        ):
            client.call("m")


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_says_hello_first_on_every_connection(serve: Serve, kind: str) -> None:
    said: list[Any] = []

    def script(peer: Peer) -> None:
        hello = peer.receive()
        said.append((hello["method"], hello["params"]))
        peer.send(result(hello, True))
        peer.send(result(peer.receive(), peer.number))
        peer.receive()

    with Client(serve(script, kind).address, user="ann", token="t") as client:
        assert client.call("m") == 0
        with pytest.raises(ConnectionLost):
            client.call("m")
        assert client.call("m") == 1
    assert said == [("faircall.hello", {"user": "ann", "token": "t"})] * 2


def test_a_refused_hello_fails_the_call_before_it_is_sent(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        hello = peer.receive()
        error = {"code": -32055, "message": "not trusted"}
        peer.send({"id": hello["id"], "error": error})
        with pytest.raises(EOFError):
            peer.receive()

    refused = pytest.raises(RemoteError, match=r"^(tcp|unix|http):\S+: .*not trusted")
    with Client(serve(script).address, user="ann") as client, refused:
        client.call("m")


def test_a_hello_that_is_not_answered_fails_at_the_connect_time_out(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        receive(peer, 2)

    late = pytest.raises(ConnectionFailed, match=r"hello was not answered: .* within 0\.02 s")
    options: dict[str, Any] = {"user": "ann", "connect_timeout": 0.02, "retry": None}
    with Client(serve(script).address, **options) as client, late:
        client.call("m")


def test_a_connection_that_ends_at_the_hello_is_no_connection(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.receive()

    ended = pytest.raises(ConnectionFailed, match=r"hello was not answered: .*the server closed")
    with Client(serve(script).address, user="ann", retry=None) as client, ended:
        client.call("m")


def test_http_says_who_is_calling_in_every_request(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), peer.headers))

    with Client(serve(script, "http").address, user="ann", token="t") as client:
        headers = client.call("m")
    assert (headers["X-Faircall-User"], headers["Authorization"]) == ("ann", "Bearer t")
