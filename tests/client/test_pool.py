"""Several connections: when one more is made, and which one a call goes through."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from faircall.client import AsyncClient, Client

from .scripted import answer, error, result

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
        client._sender._pool._connecting = True
        third = client.submit("m")
        assert [first.result(), third.result()] == [0, 0]
