"""asyncio and a ProcessPoolExecutor: JSON-RPC on lines, each call in one of two processes.

It is what runs: `python -m faircall.perf.peers.executor_server PORT`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import cast

from .functions import answer, tell_ready
from .peer import HOST, WORKERS, Peer, Place

BACKLOG = 1024


class Lines(asyncio.Protocol):
    """A connection: every line goes to the pool at once, answers come as they are ready."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool, self._part = pool, b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        *whole, self._part = (self._part + data).split(b"\n")
        for line in whole:
            self._pool.submit(answer, line).add_done_callback(self._done)

    def _done(self, future: Future[bytes]) -> None:
        """In the pool's thread."""
        self._loop.call_soon_threadsafe(self._transport.write, future.result() + b"\n")


async def serve(port: int) -> None:
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(WORKERS, mp_context=fork, initializer=tell_ready) as pool:
        for _ in range(WORKERS):  # processes are made at the first calls
            pool.submit(tell_ready)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Lines(pool), HOST, port, backlog=BACKLOG)
        await server.serve_forever()


def command(place: Place) -> Sequence[str]:
    return [sys.executable, "-m", __name__, str(place.port)]


PEERS = (
    Peer(
        name="executor",
        about="asyncio (uvloop) on lines, ProcessPoolExecutor of 2",
        loaded="lines",
        command=command,
        modules={"uvloop": "uvloop"},
    ),
)

if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(int(sys.argv[1])))
