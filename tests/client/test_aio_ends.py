"""The asynchronous client when the time, a call, the connection or the client itself ends."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from faircall.client import (
    AsyncClient,
    Busy,
    ConnectionLost,
    DeadlineExceeded,
    InvalidAnswer,
)

from .exchanges import result, run

if TYPE_CHECKING:
    from .conftest import Peer, Serve

MIB = 1 << 20
STREAMS = ["tcp", "unix"]


def test_a_server_that_takes_nothing_in_is_not_waited_for_past_the_deadline(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), "connected"))
        peer.gate.wait()

    async def work(client: AsyncClient) -> None:
        assert await client.call("m") == "connected"
        text = "x" * (16 * MIB)
        calls = (client.call("m", text, timeout=0.05) for _ in range(3))
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in errors] == [DeadlineExceeded] * 3
        (connection,) = client._sender._pool._active
        transport = connection._transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 17 * MIB  # of one of the three, not of all

    run(work, serve(script).address)


@pytest.mark.parametrize("part", [b"", b'{"jsonrpc":"2.0","id":1,"result":"whole'])
@pytest.mark.parametrize("kind", STREAMS)
def test_a_server_that_dies_fails_the_calls_under_way_and_the_next_connects_anew(
    serve: Serve, kind: str, part: bytes
) -> None:
    def script(peer: Peer) -> None:
        if peer.number == 0:
            assert peer.receive()
            assert peer.receive()
            peer.send_raw(part)
        else:
            peer.send(result(peer.receive(), "here"))

    server = serve(script, kind)

    async def work(client: AsyncClient) -> None:
        calls = (client.call("one"), client.call("two"))
        for error in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(error, ConnectionLost)
            assert f"at {server.address}: the server closed" in str(error)
        assert await client.call("three") == "here"

    run(work, server.address)
    assert server.connections == 2


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_a_stranger_at_the_address_is_recognised(serve: Serve, kind: str) -> None:
    def script(peer: Peer) -> None:
        peer.send_raw(b"SSH-2.0-OpenSSH_9.9\r\n")
        peer.receive()

    async def work(client: AsyncClient) -> None:
        with pytest.raises(InvalidAnswer, match="SSH-2"):
            await client.call("m")

    run(work, serve(script, kind).address)


def test_a_call_whose_time_is_over_leaves_the_connection_to_the_others(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), "connected"))
        requests = [peer.receive(), peer.receive()]
        for request in reversed(requests):
            peer.send(result(request, request["method"]))
        peer.send(result(peer.receive(), "third"))

    async def work(client: AsyncClient) -> None:
        assert await client.call("m") == "connected"
        with pytest.raises(DeadlineExceeded, match=r"first at .*: no answer within 0\.02 s"):
            await client.call("first", timeout=0.02)
        assert await client.call("second") == "second"
        assert await client.call("third") == "third"

    server = serve(script)
    run(work, server.address)
    assert server.connections == 1


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_a_cancelled_task_takes_its_call_back(serve: Serve, kind: str) -> None:
    received = threading.Event()

    def script(peer: Peer) -> None:
        call = peer.receive()
        received.set()
        cancel = peer.receive()
        assert (cancel["method"], cancel["params"]) == ("rpc.cancel", {"id": call["id"]})
        peer.send({"id": call["id"], "error": {"code": -32051, "message": "cancelled"}})
        if kind == "http":
            peer.send(None)
        peer.send(result(peer.receive(), "next"))

    async def work(client: AsyncClient) -> None:
        task = asyncio.create_task(client.call("m"))
        await asyncio.to_thread(received.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await client.call("m") == "next"

    server = serve(script, kind)
    run(work, server.address)
    assert server.connections == 1


def test_a_batch_future_that_is_cancelled_takes_its_call_back(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        first, second = peer.receive()
        cancel = peer.receive()
        assert (cancel["method"], cancel["params"]) == ("rpc.cancel", {"id": second["id"]})
        peer.send(result(first, "kept"))

    async def work(client: AsyncClient) -> None:
        async with client.batch() as batch:
            kept, dropped = batch.add("m"), batch.add("m")
        dropped.cancel()
        assert await kept == "kept"

    run(work, serve(script).address)


def test_a_batch_future_that_is_cancelled_is_not_sent_again(serve: Serve) -> None:
    busy = {"code": -32005, "message": "full", "data": {"retry_after_ms": 1e9}}

    async def work(client: AsyncClient) -> None:
        async with client.batch(timeout=1e9) as batch:
            refused = batch.add("fail", busy)
        assert await client.call("add", 1, 1) == 2
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        refused.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run(work, serve().address)


def test_closing_ends_the_wait_for_the_next_attempt(serve: Serve) -> None:
    busy = {"code": -32005, "message": "full", "data": {"retry_after_ms": 1e9}}

    async def work(client: AsyncClient) -> None:
        task = asyncio.create_task(client.call("fail", busy, timeout=1e9))
        await asyncio.sleep(0)
        assert await client.call("add", 1, 1) == 2
        await client.close()
        with pytest.raises(Busy):
            await task

    run(work, serve().address)


def test_closing_ends_the_calls_under_way_and_refuses_new_ones(serve: Serve) -> None:
    received = threading.Event()

    def script(peer: Peer) -> None:
        peer.receive()
        received.set()
        peer.receive()

    async def work(client: AsyncClient) -> None:
        task = asyncio.create_task(client.call("m"))
        await asyncio.to_thread(received.wait, 60)
        await client.close()
        with pytest.raises(ConnectionLost, match="closed by this client"):
            await task
        with pytest.raises(RuntimeError, match="has been closed"):
            await client.call("m")

    run(work, serve(script).address)
