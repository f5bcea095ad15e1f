"""What tests of the clients say and do again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from faircall.client import AsyncClient

if TYPE_CHECKING:
    from .conftest import Peer

Work = Callable[[AsyncClient], Coroutine[Any, Any, Any]]


def run(work: Work, address: str, **options: Any) -> Any:
    """The result of `work` with a client that is closed after it."""

    async def main() -> Any:
        async with AsyncClient(address, **options) as client:
            return await work(client)

    return asyncio.run(main())


def receive(peer: Peer, count: int) -> list[Any]:
    return [peer.receive() for _ in range(count)]


def result(request: Any, value: Any) -> dict[str, Any]:
    """The answer to `request`."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": value}
