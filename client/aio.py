"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from .address import parse_address
from .aio_connection import AsyncConnection, open_connection
from .errors import local_deadline
from .options import Options
from .request import Request

Answers = Sequence["asyncio.Future[Any]"]
Send = Callable[[Sequence[Request], Answers, bool], Awaitable[None]]


class AsyncClient:
    """Calls the methods of one server, for the tasks of one event loop.

    The same as `Client`: `asyncio.gather` of calls sends them one after the other without waiting.
    A call whose task is cancelled is taken back from the server with `rpc.cancel`.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float | None = 60.0,
        user: str | None = None,
        context: str | None = None,
        token: str | None = None,
        connect_timeout: float = 5.0,
    ) -> None:
        self._options = Options(
            address=parse_address(address),
            timeout_s=timeout,
            user=user,
            context=context,
            token=token,
            connect_timeout_s=connect_timeout,
        )
        self._connecting = asyncio.Lock()
        self._connection: AsyncConnection | None = None
        self._closed = False

    async def call(
        self, method: str, /, *args: Any, timeout: float | None = None, **kwargs: Any
    ) -> Any:
        """The result of `method`, or one of the errors of `faircall.client.errors`.

        Parameters are positional or named, bytes are sent as base64. `timeout` (s) is this call's.
        """
        request = self._options.request(method, args, kwargs, self._options.limit_s(timeout))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._send([request], [future])
        return await future

    async def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """Sends a call that is never answered, whether it runs or not."""
        limit_s = self._options.limit_s(None)
        request = self._options.request(method, args, kwargs, limit_s, notification=True)
        await self._send([request], [])

    def batch(self, *, timeout: float | None = None) -> AsyncBatch:
        """Calls that are sent as one message when the `async with` block ends."""
        return AsyncBatch(self._options, self._send, self._options.limit_s(timeout))

    async def close(self) -> None:
        """Calls under way fail with ConnectionLost, and no more can be made."""
        self._closed = True
        async with self._connecting:
            connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close("closed by this client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _send(
        self, requests: Sequence[Request], futures: Answers, batch: bool = False
    ) -> None:
        limit_s = requests[0].limit_s
        until = asyncio.get_running_loop().time() + limit_s
        connection = await self._connected(limit_s)
        try:
            await connection.room(until)
        except TimeoutError:
            address = str(self._options.address)
            raise local_deadline(requests[0].method, address, limit_s) from None
        connection.send(requests, futures, until, batch=batch)

    async def _connected(self, limit_s: float) -> AsyncConnection:
        """The connection, a new one if there is none that lives; others wait while it is made."""
        if self._connection is not None and self._connection.alive():
            return self._connection
        async with self._connecting:
            if self._closed:
                raise RuntimeError(f"the client of {self._options.address} has been closed")
            if self._connection is None or not self._connection.alive():
                self._connection = await open_connection(self._options, limit_s)
            return self._connection


class AsyncBatch:
    """Gathers calls: `async with client.batch() as batch: sum = batch.add("add", 1, 2)`, then
    `await sum`. They run in any order; an exception in the block means that none is sent."""

    def __init__(self, options: Options, send: Send, limit_s: float) -> None:
        self._options = options
        self._send = send
        self._limit_s = limit_s
        self._requests: list[Request] = []
        self._futures: list[asyncio.Future[Any]] = []

    def add(self, method: str, /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """One more call; await it after the block."""
        request = self._options.request(method, args, kwargs, self._limit_s)
        self._requests.append(request)
        self._futures.append(asyncio.get_running_loop().create_future())
        return self._futures[-1]

    def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """One more call, but one that is never answered."""
        options, limit_s = self._options, self._limit_s
        self._requests.append(options.request(method, args, kwargs, limit_s, notification=True))

    async def results(self) -> list[Any]:
        """The results in the order of `add`; raises the error of the first call that has one."""
        return [await future for future in self._futures]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._requests:
            await self._send(self._requests, self._futures, True)
