"""Several connections: when one more is made, and which one a call goes through."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import AsyncClient, Client, ConnectionFailed, RemoteError, Retry
from faircall.client.pool import Pool

from .scripted import AT_ONCE, Scripted, answer, error, result

if TYPE_CHECKING:
    from .conftest import Peer, Serve


class Held:
    """A server that answers a call with the number of its connection, once it is released."""

    def __init__(self) -> None:
        self._ready = [threading.Semaphore(0) for _ in range(4)]
        self.calls = [0] * 4
        self.received = threading.Semaphore(0)

    def __call__(self, peer: Peer) -> None:
        while True:
            message = peer.receive()
            self.calls[peer.number] += 1
            self.received.release()
            if not self._ready[peer.number].acquire(timeout=60):
                raise TimeoutError
            peer.send(answer(message, result(peer.number)))

    def release(self, connection: int, calls: int = 1) -> None:
        self._ready[connection].release(calls)


def test_one_more_connection_is_made_while_all_are_busy_and_then_the_idlest_is_used(
    serve: Serve,
) -> None:
    script = Held()
    server = serve(script)
    with Client(server.address, connections=3) as client:
        first = [client.submit("m") for _ in range(3)]
        script.release(1)
        assert first[1].result() == 1
        more = [client.submit("m") for _ in range(2)]
        for connection in range(3):
            script.release(connection, 2)
        assert [future.result() for future in (first[0], first[2])] == [0, 2]
        assert more[0].result() == 1
        assert more[1].result() in range(3)
    assert server.connections == 3


def test_the_tasks_of_one_loop_are_spread_over_the_connections(serve: Serve) -> None:
    script = Held()
    server = serve(script)

    async def work() -> None:
        async with AsyncClient(server.address, connections=3) as client:
            tasks = []
            for _ in range(3):
                tasks.append(asyncio.create_task(client.call("m")))
                await asyncio.to_thread(script.received.acquire, timeout=60)
            script.release(1)
            assert await tasks[1] == 1
            again = asyncio.create_task(client.call("m"))
            for connection in range(3):
                script.release(connection)
            assert await again == 1
            assert [await tasks[0], await tasks[2]] == [0, 2]

    asyncio.run(work())
    assert script.calls == [1, 2, 1, 0]


@pytest.mark.parametrize("connections", [1, 3])
def test_calls_one_after_the_other_need_one_connection(serve: Serve, connections: int) -> None:
    server = serve()
    with Client(server.address, connections=connections) as client:
        assert [client.call("add", i, 1) for i in range(5)] == [1, 2, 3, 4, 5]
    assert server.connections == 1


def test_threads_share_a_pool(serve: Serve) -> None:
    barrier = threading.Barrier(4)
    server = serve()
    results: list[int] = []
    with Client(server.address, connections=3) as client:

        def work(thread: int) -> None:
            barrier.wait()
            results.extend(client.call("add", thread, i) for i in range(50))

        threads = [threading.Thread(target=work, args=[thread]) for thread in (0, 100, 200, 300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == sorted(n + i for n in (0, 100, 200, 300) for i in range(50))
    assert server.connections <= 3


def greet_one(peer: Peer) -> None:
    """Accepts the hello of the first connection alone, and answers when it has two calls."""
    hello = peer.receive()
    peer.send(answer(hello, error(-32055) if peer.number else result(True)))
    held = [peer.receive() for _ in range(3)]
    for message in held:
        peer.send(answer(message, result(peer.number)))


def test_a_pool_that_cannot_grow_uses_what_it_has(serve: Serve) -> None:
    server = serve(greet_one)
    with Client(server.address, connections=3, user="ann") as client:
        futures = [client.submit("m") for _ in range(3)]
        assert [future.result() for future in futures] == [0, 0, 0]
    assert server.connections == 2


def test_an_async_pool_that_cannot_grow_uses_what_it_has(serve: Serve) -> None:
    server = serve(greet_one)

    async def work() -> Any:
        async with AsyncClient(server.address, connections=3, user="ann") as client:
            return await asyncio.gather(*(client.call("m") for _ in range(3)))

    assert asyncio.run(work()) == [0, 0, 0]
    assert server.connections <= 2


def greet_second_late(peer: Peer) -> None:
    """The first connection answers its two calls at once, and then the second gets its hello."""
    hello = peer.receive()
    if peer.number:
        peer.gate.wait()
    peer.send(answer(hello, result(True)))
    messages = [peer.receive() for _ in range(1 if peer.number else 2)]
    peer.gate.set()
    for message in messages:
        peer.send(answer(message, result(peer.number)))
    peer.receive()


def test_while_one_more_connection_is_made_the_others_are_used(serve: Serve) -> None:
    server = serve(greet_second_late)

    async def work() -> None:
        options: dict[str, Any] = {"connections": 2, "user": "ann", "timeout": 30}
        async with AsyncClient(server.address, **options) as client:
            assert await asyncio.gather(*(client.call("m") for _ in range(3))) == [0, 1, 0]

    asyncio.run(work())


def test_while_a_thread_makes_one_more_connection_others_use_what_there_is(serve: Serve) -> None:
    server = serve(greet_second_late)
    with Client(server.address, connections=2, user="ann", timeout=30) as client:
        first = client.submit("m")
        with client._sender._pool._connecting:
            third = client.submit("m")
        assert [first.result(), third.result()] == [0, 0]


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
            client._sender._pool._add(0.0, math.inf)
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
    errors: list[Exception] = []

    def work() -> None:
        try:
            client.call("m")
        except Exception as caught:
            errors.append(caught)

    thread = threading.Thread(target=work)
    thread.start()
    assert greeted.wait(60)
    client.close()
    server.gate.set()
    thread.join()
    assert "has been closed" in str(errors[0])
    assert server.ended.acquire(timeout=60)


def test_a_call_does_not_wait_longer_for_a_connection_than_its_own_time(serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.receive()
        peer.receive()

    with Client(serve(script).address, user="ann", retry=None) as client:
        pool = client._sender._pool
        with pool._connecting, pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
            client.call("m", timeout=0.01)
        with pytest.raises(ConnectionFailed, match=r"no answer within 0\.0\d* s"):
            client.call("m", timeout=0.01)
