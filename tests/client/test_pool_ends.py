"""Pools whose connections end, or cannot be made."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import AsyncClient, Client, ConnectionFailed, RemoteError, Retry
from faircall.client.pool import Pool

from .scripted import AT_ONCE, Scripted, answer, error, result

if TYPE_CHECKING:
    from .conftest import Peer, Serve


def test_a_connection_that_was_made_to_a_server_since_left_is_used_once(serve: Serve) -> None:
    server = serve()
    with Client(server.address) as client:
        assert client.call("add", 1, 1) == 2
        pool = client._sender._pool
        (connection,) = pool._active
        pool.move_on(connection)
        pool._keep(connection, pool._places.epoch - 1)
        assert pool._active == []
        assert client.call("add", 1, 1) == 2
    assert server.connections == 2


def test_an_async_connection_to_a_server_since_left_is_used_once(serve: Serve) -> None:
    server = serve()

    async def work() -> None:
        async with AsyncClient(server.address) as client:
            assert await client.call("add", 1, 1) == 2
            pool = client._sender._pool
            (connection,) = pool._active
            pool.move_on(connection)
            await pool._keep(connection, pool._places.epoch - 1)
            assert pool._active == []
            assert await client.call("add", 1, 1) == 2

    asyncio.run(work())
    assert server.connections == 2


def test_closing_ends_the_wait_for_a_connection(serve: Serve) -> None:
    waiting = threading.Event()

    class Watched(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            waiting.set()
            return super().wait(timeout)

    client = Client(serve().address)
    client._sender._pool._changed = Watched(threading.Lock())
    client._sender._pool._connecting = True
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call, "m", timeout=30)
        assert waiting.wait(60)
        client.close()
        with pytest.raises(RuntimeError, match="has been closed"):
            call.result()


@pytest.mark.parametrize("retry", [AT_ONCE, None])
def test_what_could_not_be_sent_on_an_ended_connection_is_sent_on_a_new_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, retry: Retry | None
) -> None:
    """The server closes after the client has looked whether the connection lives."""

    def script(peer: Peer) -> None:
        peer.send(answer(peer.receive(), result(peer.number)))

    def ended_once(pool: Pool) -> Any:
        monkeypatch.undo()
        return pool._active[0]

    server = serve(script, "unix")
    with Client(server.address, retry=retry) as client:
        assert client.call("m") == 0
        assert server.ended.acquire(timeout=60)
        monkeypatch.setattr(Pool, "_least_busy", ended_once)
        if retry is None:
            with pytest.raises(ConnectionFailed, match="not sent"):
                client.call("m")
        assert client.call("m") == 1


def test_tasks_that_wait_for_a_connection_share_its_failure(serve: Serve) -> None:
    script = Scripted(error(-32055))
    server = serve(script)

    async def work() -> None:
        async with AsyncClient(server.address, user="ann") as client:
            calls = (client.call("m") for _ in range(5))
            errors = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(error) for error in errors] == [RemoteError] * 5
            assert server.connections == 1
            with pytest.raises(RemoteError):
                await client.call("m")

    asyncio.run(work())
    assert server.connections == 2


def test_a_thread_that_waited_for_a_connection_shares_its_failure(serve: Serve) -> None:
    server = serve(Scripted(error(-32055)))
    with Client(server.address, user="ann") as client:
        with pytest.raises(RemoteError):
            client.call("m")
        with pytest.raises(RemoteError, match="-32055"):
            client._sender._pool._may_connect(None, since=0.0)
        assert server.connections == 1
        with pytest.raises(RemoteError):
            client.call("m")
    assert server.connections == 2


def test_a_connection_that_is_made_when_the_client_closes_is_closed(serve: Serve) -> None:
    greeted = threading.Event()

    def script(peer: Peer) -> None:
        hello = peer.receive()
        greeted.set()
        peer.gate.wait()
        peer.send(answer(hello, result(True)))
        with pytest.raises(EOFError):
            peer.receive()

    server = serve(script)
    client = Client(server.address, user="ann")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call, "m")
        assert greeted.wait(60)
        client.close()
        server.gate.set()
        with pytest.raises(RuntimeError, match="has been closed"):
            call.result()
    assert server.ended.acquire(timeout=60)


def test_a_call_does_not_wait_longer_for_a_connection_than_its_own_time(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        peer.receive()

    with Client(serve(script).address, user="ann", retry=None) as client:
        client._sender._pool._connecting = True
        with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
            client.call("m", timeout=0.01)
        client._sender._pool._connecting = False
        with pytest.raises(ConnectionFailed, match=r"no answer within 0\.\d+ s"):
            client.call("m", timeout=0.2)
