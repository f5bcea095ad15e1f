"""The client for asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from .address import Address, parse_addresses
from .aio_batch import AsyncBatch
from .aio_sender import AsyncSender
from .options import Options
from .retry import DEFAULT_RETRY, Retry


class AsyncClient:
    """Calls the methods of a server, for the tasks of one event loop.

    The same as `Client`, with the same options: `asyncio.gather` of calls sends them one after the
    other without waiting. A call whose task is cancelled is taken back from the server with
    `rpc.cancel`.
    """

    def __init__(
        self,
        addresses: str | Address | Sequence[str],
        *,
        timeout: float | None = 60.0,
        user: str | None = None,
        context: str | None = None,
        token: str | None = None,
        connect_timeout: float = 5.0,
        connections: int = 1,
        retry: Retry | None = DEFAULT_RETRY,
    ) -> None:
        self._options = Options(
            addresses=parse_addresses(addresses),
            timeout_s=timeout,
            user=user,
            context=context,
            token=token,
            connect_timeout_s=connect_timeout,
            connections=connections,
            retry=retry,
        )
        self._sender = AsyncSender(self._options)

    async def call(
        self,
        method: str,
        /,
        *args: Any,
        timeout: float | None = None,
        idempotent: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The result of `method`, or one of the errors of `faircall.client.errors`.

        Parameters are positional or named, bytes are sent as base64. `timeout` (s) is this call's,
        with all its repeats. `idempotent`: it does no harm if this call runs twice.
        """
        request = self._options.request(method, args, kwargs, self._options.limit_s(timeout))
        return await self._sender.call(request, self._sender.tries(idempotent))

    async def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """Sends a call that is never answered, whether it runs or not."""
        limit_s = self._options.limit_s(None)
        request = self._options.request(method, args, kwargs, limit_s, notification=True)
        await self._sender.send_first([request], [], self._sender.tries(idempotent=False))

    def batch(self, *, timeout: float | None = None, idempotent: bool = False) -> AsyncBatch:
        """Calls that are sent as one message when the `async with` block ends."""
        return AsyncBatch(self._sender, self._options.limit_s(timeout), idempotent=idempotent)

    async def close(self) -> None:
        """Calls under way fail with ConnectionLost, and no more can be made."""
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
