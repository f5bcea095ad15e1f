from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import (
    AsyncClient,
    Busy,
    RemoteError,
)

from .exchanges import result, run

if TYPE_CHECKING:
    from .conftest import Peer, Serve

MIB = 1 << 20
STREAMS = ["tcp", "unix"]


def test_calls_with_positional_and_named_parameters(serve: Serve, kind: str) -> None:
    async def work(client: AsyncClient) -> Any:
        assert await client.call("add", 2, 3) == 5
        return await client.call("request", name="ä", data=b"\x00", timeout=20)

    server = serve(kind=kind)
    request = run(work, server.address, timeout=50, context="job")
    assert request["params"] == {"name": "ä", "data": "AA=="}
    assert request["meta"] == {"timeout_ms": 20_000, "caller_context": "job"}
    assert server.connections == 1


def test_error_objects_are_raised(serve: Serve, kind: str) -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(Busy, match="full"):
            await client.call("fail", {"code": -32005, "message": "full"})
        assert await client.call("add", 1, 1) == 2

    run(work, serve(kind=kind).address, retry=None)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_gathering_of_calls_is_under_way_at_once_in_any_order(serve: Serve, kind: str) -> None:
    def script(peer: Peer) -> None:
        for request in reversed([peer.receive() for _ in range(50)]):
            peer.send(result(request, request["params"][0]))

    async def work(client: AsyncClient) -> Any:
        return await asyncio.gather(*(client.call("m", i) for i in range(50)))

    server = serve(script, kind)
    assert run(work, server.address, timeout=None) == list(range(50))
    assert server.connections == 1


def test_over_http_many_calls_are_under_way_on_one_connection(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        for request in [peer.receive() for _ in range(20)]:
            peer.send(result(request, request["params"][0]))

    async def work(client: AsyncClient) -> Any:
        return await asyncio.gather(*(client.call("m", i) for i in range(20)))

    server = serve(script, "http")
    assert run(work, server.address) == list(range(20))
    assert server.connections == 1


def test_a_batch_with_notifications(serve: Serve, kind: str) -> None:
    async def work(client: AsyncClient) -> None:
        async with client.batch(timeout=30) as batch:
            total = batch.add("add", 1, 2)
            batch.notify("log", "x")
            request = batch.add("request", a=1)
        assert await batch.results() == [3, await request]
        assert (await request)["meta"] == {"timeout_ms": 30_000}
        assert await total == 3
        async with client.batch() as batch:
            batch.add("nothing")
        with pytest.raises(RemoteError, match="Method not found"):
            await batch.results()

    run(work, serve(kind=kind).address)


async def give_up(client: AsyncClient) -> None:
    async with client.batch() as batch:
        batch.add("add", 1, 2)
        raise LookupError


def test_a_batch_whose_block_fails_is_not_sent(serve: Serve) -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(LookupError):
            await give_up(client)

    server = serve()
    run(work, server.address)
    assert server.connections == 0


def test_notifications_are_not_waited_for(serve: Serve, kind: str) -> None:
    async def work(client: AsyncClient) -> None:
        for _ in range(300):
            await client.notify("log", "x" * 1000)
        assert await client.call("add", 1, 1) == 2

    run(work, serve(kind=kind).address)


def test_sixteen_mebibytes_there_and_back(serve: Serve, kind: str) -> None:
    async def work(client: AsyncClient) -> None:
        text = "x" * (16 * MIB)
        assert await client.call("add", text, "y") == text + "y"

    run(work, serve(kind=kind).address)


def test_a_sender_waits_for_room_and_goes_on(serve: Serve) -> None:
    async def work(client: AsyncClient) -> None:
        text = "x" * MIB
        answers = await asyncio.gather(*(client.call("add", text, str(i)) for i in range(20)))
        assert [answer[MIB:] for answer in answers] == [str(i) for i in range(20)]

    run(work, serve().address)
