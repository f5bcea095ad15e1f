"""What `faircall demo incident` serves: a small file service, whose calls take processor time."""

from __future__ import annotations

import time

from ...workers.errors import RpcError
from ...workers.service import Service

service = Service("incidents")

NOT_FOUND = 1404
ENTRY = {"name": "part-00000", "length": 134_217_728, "owner": "hdfs", "replication": 3}


def _work(ms: float) -> None:
    end_ns = time.thread_time_ns() + int(ms * 1e6)
    while time.thread_time_ns() < end_ns:
        pass


@service.method(idempotent=True)
def status(path: str) -> dict[str, object]:
    """What everybody asks for: half a millisecond."""
    _work(0.5)
    return {"path": path, "length": 4096}


@service.method(idempotent=True)
def heartbeat(node: int) -> int:
    """That a node lives: next to nothing."""
    return node


@service.method
def create(path: str) -> str:
    """A small file: a tenth of a millisecond."""
    _work(0.1)
    return path


@service.method
def rename(path: str) -> None:
    """Of a file that is not there: always an error, after a look."""
    _work(0.3)
    raise RpcError(NOT_FOUND, f"{path}: no such file")


@service.method(idempotent=True)
def listing(path: str, entries: int) -> list[dict[str, object]]:
    """Of a directory that is far too large: 10 ms for 2,000 entries, and 160 KiB of answer."""
    _work(entries * 0.005)
    return [ENTRY] * entries


@service.method
def report(path: str) -> int:
    """Blocks of a node: 3 ms."""
    _work(3)
    return len(path)
