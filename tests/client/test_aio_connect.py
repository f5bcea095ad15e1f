"""How the asynchronous client gets a connection, and says who is calling."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import (
    AsyncClient,
    ConnectionFailed,
    RemoteError,
)

from .exchanges import result, run

if TYPE_CHECKING:
    from .conftest import Peer, Serve


def test_no_server_is_a_failed_connection(nowhere: str, tmp_path: Path) -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(ConnectionFailed, match="cannot connect to"):
            await client.call("m")

    for address in (nowhere.replace("tcp:", "http:"), f"unix:{tmp_path}/none"):
        run(work, address, retry=None)


def test_a_full_queue_of_the_server_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "s")

    async def work(client: AsyncClient) -> None:
        with pytest.raises(ConnectionFailed, match=r"no connection within 0\.02 s"):
            await client.call("m")

    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as queued:
        listener.bind(path)
        listener.listen(0)
        queued.connect(path)
        run(work, f"unix:{path}", connect_timeout=0.02, retry=None)


def test_a_stream_says_hello_first_once_for_all_its_calls(serve: Serve) -> None:
    said: list[Any] = []

    def script(peer: Peer) -> None:
        hello = peer.receive()
        said.append((hello["method"], hello["params"]))
        peer.send(result(hello, True))
        for request in [peer.receive() for _ in range(3)]:
            peer.send(result(request, request["params"][0]))

    async def work(client: AsyncClient) -> Any:
        return await asyncio.gather(*(client.call("m", i) for i in range(3)))

    assert run(work, serve(script).address, user="ann") == [0, 1, 2]
    assert said == [("faircall.hello", {"user": "ann"})]


def test_a_refused_hello_fails_the_call_before_it_is_sent(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        error = {"code": -32055, "message": "not trusted"}
        peer.send({"id": peer.receive()["id"], "error": error})
        with pytest.raises(EOFError):
            peer.receive()

    async def work(client: AsyncClient) -> None:
        with pytest.raises(RemoteError, match=r"^(tcp|unix|http):\S+: .*not trusted"):
            await client.call("m")

    run(work, serve(script).address, user="ann")


def test_a_hello_that_is_not_answered_is_no_connection(serve: Serve) -> None:
    """It is said, unless all of the time has gone before there was one."""

    def script(peer: Peer) -> None:
        peer.receive()
        peer.receive()

    async def failure(client: AsyncClient) -> str:
        with pytest.raises(ConnectionFailed) as caught:
            await client.call("m")
        return str(caught.value)

    async def work(client: AsyncClient) -> None:
        for _ in range(100):
            said = await failure(client)
            if "no connection within 0.02 s" not in said:
                break
        assert re.search(r"hello was not answered: .* within 0\.02 s", said)

    run(work, serve(script).address, user="ann", connect_timeout=0.02, retry=None)


def test_http_says_who_is_calling_in_every_request(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), peer.headers))

    async def work(client: AsyncClient) -> Any:
        return await client.call("m")

    assert run(work, serve(script, "http").address, user="ann")["X-Faircall-User"] == "ann"
