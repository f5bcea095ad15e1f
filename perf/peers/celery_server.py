"""Celery: a redis-server of its own on a Unix socket as broker and result backend, a prefork worker
of two.

It is what runs: `python -m faircall.perf.peers.celery_server FOLDER`. Celery is no JSON-RPC: a call
is a task whose result is awaited, by one event loop that follows the results as they are published.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from ...client.address import Address
from .functions import FUNCTIONS, tell_ready
from .peer import FAIRCALL_CLIENT, WORKERS, Peer, Place

SOCKET = "redis.sock"
REDIS = "redis-server --port 0 --save  --appendonly no --loglevel warning --unixsocket"
WORKER = (
    f"worker --pool=prefork --concurrency={WORKERS} --prefetch-multiplier=8 --loglevel=ERROR"
    " --without-gossip --without-mingle --without-heartbeat"
)
TASK = "call"


def app_at(socket: str) -> Any:
    """The Celery application, whose broker listens at this path."""
    import celery

    made = celery.Celery(broker=f"redis+socket://{socket}", backend=f"redis+socket://{socket}")
    made.conf.update(
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        result_expires=60,
        worker_disable_rate_limits=True,
        worker_hijack_root_logger=False,
        task_store_errors_even_if_ignored=False,
        broker_connection_retry_on_startup=True,
    )
    return made


def serve(folder: str) -> None:
    import celery.signals

    socket = os.path.join(folder, SOCKET)
    subprocess.Popen([*REDIS.split(" "), socket], cwd=folder, stdin=subprocess.DEVNULL)
    while not Path(socket).exists():
        time.sleep(0.01)
    app = app_at(socket)

    def call(name: str, params: Sequence[Any]) -> Any:
        return FUNCTIONS[name](*params)

    def ready(**_: object) -> None:
        tell_ready()

    app.task(name=TASK)(call)
    celery.signals.worker_process_init.connect(ready)
    app.worker_main(WORKER.split())


class Results:
    """Follows the channel on which results are published, for all callers of an event loop."""

    def __init__(self, app: Any) -> None:
        self._consumer, self._task = app.backend.result_consumer, app.signature(TASK)
        self._watched = False

    async def call(self, name: str, params: Sequence[Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        result = self._task.clone(args=(name, list(params))).apply_async()
        result.then(future.set_result)
        self._consumer.backend.add_pending_result(result)
        self._watch()
        self._drain()
        done = await future
        return done.result

    def _watch(self) -> None:
        if not self._watched:
            self._watched = True
            connection = self._consumer._pubsub.connection
            asyncio.get_running_loop().add_reader(connection._sock.fileno(), self._drain)

    def _drain(self) -> None:
        while self._consumer._pubsub.connection.can_read(timeout=0):
            self._consumer.drain_events(timeout=0)


_shared: dict[str, Results] = {}


async def caller(address: Address) -> Callable[[str, Sequence[Any]], Awaitable[Any]]:
    """All callers share one connection: that of the application, as Celery has it."""
    if address.path not in _shared:
        _shared[address.path] = Results(app_at(address.path))
    return _shared[address.path].call


def _address(place: Place) -> Address:
    return Address(path=str(place.folder / SOCKET))


def command(place: Place) -> Sequence[str]:
    return [sys.executable, "-m", __name__, str(place.folder)]


PEERS = (
    Peer(
        name="celery",
        about="prefork of 2, redis-server on a Unix socket; no JSON-RPC: called by Celery (Python)",
        loaded="client",
        command=command,
        address=_address,
        module="celery_server",
        caller="caller",
        beside=FAIRCALL_CLIENT,
        modules={"celery": "celery", "redis": "redis"},
        programs={"redis-server": "redis-server"},
    ),
)

if __name__ == "__main__":
    serve(sys.argv[1])
