"""The client: `Client` for threads, `AsyncClient` for asyncio. Imports nothing else of faircall.

    with Client("tcp://127.0.0.1:8020") as client:
        client.call("add", 2, 3)

The asynchronous one is loaded when it is first asked for, since a program wants one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .address import Address, parse_address
from .batch import Batch
from .errors import (
    AddressError,
    Busy,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    InvalidAnswer,
    RemoteError,
    RpcClientError,
)
from .future import Future
from .retry import Retry
from .sync import Client

if TYPE_CHECKING:
    from .aio import AsyncClient
    from .aio_batch import AsyncBatch

__all__ = [
    "Address",
    "AddressError",
    "AsyncBatch",
    "AsyncClient",
    "Batch",
    "Busy",
    "Client",
    "ConnectionFailed",
    "ConnectionLost",
    "DeadlineExceeded",
    "Future",
    "InvalidAnswer",
    "RemoteError",
    "Retry",
    "RpcClientError",
    "parse_address",
]


def __getattr__(name: str) -> object:
    if name not in ("AsyncBatch", "AsyncClient"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import aio

    return getattr(aio, name)
