"""faircall itself: called by the load generator, and by its own client as gRPC and Celery are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ...client.address import Address
from ...client.aio import AsyncClient
from .peer import FAIRCALL, FAIRCALL_CLIENT, Peer

PEERS = (
    Peer(
        name=FAIRCALL,
        about="faircall serve, 2 handlers, default settings",
        loaded="lines",
    ),
    Peer(
        name=FAIRCALL_CLIENT,
        about="the same, called by faircall's AsyncClient (Python)",
        loaded="client",
        module="faircall_server",
        caller="caller",
    ),
)


async def caller(address: Address) -> Callable[[str, Sequence[Any]], Awaitable[Any]]:
    """A connection of its own; what it returns calls."""
    client = AsyncClient(address)

    async def call(method: str, params: Sequence[Any]) -> Any:
        return await client.call(method, *params)

    return call
