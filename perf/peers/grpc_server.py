"""gRPC: bytes without protobuf, two processes on one port, as a synchronous or asyncio server.

gRPC is no JSON-RPC: the same request, as JSON, is the message of one unary method. The load comes
from a client in Python (`grpc.aio`), one channel a connection.
It is what runs: `python -m faircall.perf.peers.grpc_server sync|aio PORT`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from ...client.address import Address
from .functions import answer, tell_ready
from .peer import FAIRCALL_CLIENT, HOST, WORKERS, Peer, Place

SERVICE, METHOD = "faircall.Peer", "Call"
THREADS = 8  # of each synchronous server: more wait for its GIL only
OPTIONS = (("grpc.so_reuseport", 1), ("grpc.max_concurrent_streams", 4096))
CLIENT_OPTIONS = (("grpc.use_local_subchannel_pool", 1),)  # a connection for each channel


def _handlers(function: Callable[..., Any]) -> Any:
    import grpc

    one = grpc.unary_unary_rpc_method_handler(function)
    return (grpc.method_handlers_generic_handler(SERVICE, {METHOD: one}),)


def serve_sync(port: int) -> None:
    import grpc

    def call(body: bytes, context: object) -> bytes:
        return answer(body)

    server = grpc.server(ThreadPoolExecutor(THREADS), _handlers(call), options=OPTIONS)
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    tell_ready()
    server.wait_for_termination()


def serve_aio(port: int) -> None:
    asyncio.run(_serve_aio(port))


async def _serve_aio(port: int) -> None:
    import grpc.aio

    async def call(body: bytes, context: object) -> bytes:
        return answer(body)

    server = grpc.aio.server(handlers=_handlers(call), options=OPTIONS)
    server.add_insecure_port(f"{HOST}:{port}")
    await server.start()
    tell_ready()
    await server.wait_for_termination()


async def caller(address: Address) -> Callable[[str, Sequence[Any]], Awaitable[Any]]:
    """A channel of its own; what it returns calls."""
    import grpc.aio

    channel = grpc.aio.insecure_channel(address.authority, options=CLIENT_OPTIONS)
    method = channel.unary_unary(f"/{SERVICE}/{METHOD}")

    async def call(name: str, params: Sequence[Any]) -> Any:
        body = {"jsonrpc": "2.0", "method": name, "params": params, "id": 1}
        return orjson.loads(await method(orjson.dumps(body)))["result"]

    await channel.channel_ready()
    return call


def _peer(kind: str, about: str) -> Peer:
    def command(place: Place) -> Sequence[str]:
        return [sys.executable, "-m", __name__, kind, str(place.port)]

    return Peer(
        name=f"grpc-{kind}",
        about=f"{about}, 2 processes, bytes as JSON; no JSON-RPC: called by grpc.aio (Python)",
        loaded="client",
        command=command,
        module="grpc_server",
        caller="caller",
        beside=FAIRCALL_CLIENT,
        modules={"grpc": "grpcio"},
    )


PEERS = (_peer("sync", f"grpc.server of {THREADS} threads"), _peer("aio", "grpc.aio.server"))

if __name__ == "__main__":
    serve, port = {"sync": serve_sync, "aio": serve_aio}[sys.argv[1]], int(sys.argv[2])
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Process(target=serve, args=(port,)) for _ in range(WORKERS)]
    for process in started:
        process.start()
    for process in started:
        process.join()
