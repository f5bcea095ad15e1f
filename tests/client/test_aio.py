from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import (
    AsyncClient,
    Busy,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    InvalidAnswer,
    RemoteError,
)

if TYPE_CHECKING:
    from tests.client.conftest import Peer, Serve

MIB = 1 << 20
STREAMS = ["tcp", "unix"]
Work = Callable[[AsyncClient], Coroutine[Any, Any, Any]]


def run(work: Work, address: str, **options: Any) -> Any:
    """The result of `work` with a client that is closed after it."""

    async def main() -> Any:
        async with AsyncClient(address, **options) as client:
            return await work(client)

    return asyncio.run(main())


def result(request: Any, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": value}


def test_calls_with_positional_and_named_parameters(serve: Serve, kind: str) -> None:
    async def work(client: AsyncClient) -> Any:
        assert await client.call("add", 2, 3) == 5
        return await client.call("request", name="ä", data=b"\x00", timeout=2)

    server = serve(kind=kind)
    request = run(work, server.address, timeout=5, context="job")
    assert request["params"] == {"name": "ä", "data": "AA=="}
    assert request["meta"] == {"timeout_ms": 2000, "caller_context": "job"}
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
        async with client.batch(timeout=3) as batch:
            total = batch.add("add", 1, 2)
            batch.notify("log", "x")
            request = batch.add("request", a=1)
        assert await batch.results() == [3, await request]
        assert (await request)["meta"] == {"timeout_ms": 3000}
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


def test_no_server_is_a_failed_connection(tmp_path: Path) -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(ConnectionFailed, match="cannot connect to"):
            await client.call("m")

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for address in (f"http://127.0.0.1:{port}", f"unix:{tmp_path}/none"):
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
        with pytest.raises(RemoteError, match=r"faircall\.hello at .*not trusted"):
            await client.call("m")

    run(work, serve(script).address, user="ann")


def test_a_hello_that_is_not_answered_is_no_connection(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        peer.receive()

    async def work(client: AsyncClient) -> None:
        with pytest.raises(ConnectionFailed, match=r"hello was not answered: .* within 0\.02 s"):
            await client.call("m")

    run(work, serve(script).address, user="ann", connect_timeout=0.02, retry=None)


def test_http_says_who_is_calling_in_every_request(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.send(result(peer.receive(), peer.headers))

    async def work(client: AsyncClient) -> Any:
        return await client.call("m")

    assert run(work, serve(script, "http").address, user="ann")["X-Faircall-User"] == "ann"
