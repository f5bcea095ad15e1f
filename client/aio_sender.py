"""How the calls of one asynchronous client are sent, and sent again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from .aio_connection import AsyncConnection
from .aio_pool import AsyncPool
from .errors import RpcClientError, local_deadline
from .options import Options
from .request import Request
from .retry import RetryBudget, Tries, goes_elsewhere

Attempt = asyncio.Future[Any]


class AsyncSender:
    """What the calls of a client have in common. Moments are seconds of the loop's clock."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._pool = AsyncPool(options)
        self._budget = RetryBudget(options.retry)
        self._closing = asyncio.Event()

    def tries(self, idempotent: bool) -> Tries:
        """Those of a new call."""
        options = self.options
        return Tries(options.retry, self._budget, len(options.addresses), idempotent=idempotent)

    async def send_first(
        self,
        requests: Sequence[Request],
        attempts: Sequence[Attempt],
        tries: Tries,
        *,
        batch: bool = False,
    ) -> AsyncConnection:
        """Sends one message, which counts for the budget; raises when it could not be sent."""
        self._budget.deposit(len(requests))
        until = _now() + requests[0].limit_s
        return await self._send(requests, attempts, until, tries, batch)

    async def call(self, request: Request, tries: Tries) -> Any:
        """The result; or the error that stands, when the call cannot be repeated."""
        attempt: Attempt = asyncio.get_running_loop().create_future()
        until = _now() + request.limit_s
        connection = await self.send_first([request], [attempt], tries)
        try:
            return await attempt
        except RpcClientError as error:
            return await self.recover(error, request, connection, until, tries)

    async def recover(
        self,
        error: RpcClientError,
        request: Request,
        connection: AsyncConnection,
        until: float,
        tries: Tries,
    ) -> Any:
        """The same for a call that was sent through `connection` and answered with `error`."""
        while True:
            if goes_elsewhere(error):
                self._pool.move_on(connection)
            tries.sent += 1
            delay_s = tries.after(error, until - _now())
            if delay_s is None or not await self._pause(delay_s):
                raise error
            attempt: Attempt = asyncio.get_running_loop().create_future()
            again = request.again(until - _now(), tries.sent)
            connection = await self._send([again], [attempt], until, tries, False)
            try:
                return await attempt
            except RpcClientError as failure:
                error = failure

    async def close(self) -> None:
        """Ends every call and every pause."""
        self._closing.set()
        await self._pool.close()

    async def _pause(self, delay_s: float) -> bool:
        """Sleeps; False if the client is closed meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._closing.wait()
        return not self._closing.is_set()

    async def _send(
        self,
        requests: Sequence[Request],
        attempts: Sequence[Attempt],
        until: float,
        tries: Tries,
        batch: bool,
    ) -> AsyncConnection:
        """Sends one message; what cannot be sent is tried again here, as far as `tries` allow."""
        while True:
            try:
                return await self._send_once(requests, attempts, until, batch)
            except RpcClientError as error:
                delay_s = tries.after(error, until - _now())
                if delay_s is None or not await self._pause(delay_s):
                    raise
            left_s = until - _now()
            requests = [request.again(left_s, tries.sent) for request in requests]

    async def _send_once(
        self, requests: Sequence[Request], attempts: Sequence[Attempt], until: float, batch: bool
    ) -> AsyncConnection:
        first = requests[0]
        connection = await self._pool.take(first, until)
        try:
            await connection.room(until)
        except TimeoutError:
            raise local_deadline(first.method, connection.address, first.limit_s) from None
        connection.send(requests, attempts, until, batch=batch)
        return connection


def _now() -> float:
    return asyncio.get_running_loop().time()
