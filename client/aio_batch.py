"""Calls that the asynchronous client sends as one message."""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import Any, Self

from .aio_connection import AsyncConnection
from .aio_sender import AsyncSender, Attempt
from .errors import RpcClientError
from .request import Request


class AsyncBatch:
    """Gathers calls: `async with client.batch() as batch: sum = batch.add("add", 1, 2)`, then
    `await sum`. They run in any order; an exception in the block means that none is sent.
    Those that are to be repeated are sent again one by one."""

    def __init__(self, sender: AsyncSender, limit_s: float, *, idempotent: bool) -> None:
        self._sender = sender
        self._limit_s = limit_s
        self._idempotent = idempotent
        self._requests: list[Request] = []
        self._futures: list[asyncio.Future[Any]] = []

    def add(self, method: str, /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """One more call; await it after the block."""
        request = self._sender.options.request(method, args, kwargs, self._limit_s)
        self._requests.append(request)
        self._futures.append(asyncio.get_running_loop().create_future())
        return self._futures[-1]

    def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """One more call, but one that is never answered."""
        options, limit_s = self._sender.options, self._limit_s
        self._requests.append(options.request(method, args, kwargs, limit_s, notification=True))

    async def results(self) -> list[Any]:
        """The results in the order of `add`; raises the error of the first call that has one."""
        outcomes = await asyncio.gather(*self._futures, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return outcomes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._requests:
            await self._send()

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limit_s
        attempts: list[Attempt] = [loop.create_future() for _ in self._futures]
        tries = self._sender.tries(self._idempotent)
        connection = await self._sender.send_first(self._requests, attempts, tries, batch=True)
        asked = [request for request in self._requests if not request.notification]
        for request, future, attempt in zip(asked, self._futures, attempts, strict=True):
            attempt.add_done_callback(partial(self._settle, request, future, connection, until))
            future.add_done_callback(partial(_cancel, attempt))

    def _settle(
        self,
        request: Request,
        future: asyncio.Future[Any],
        connection: AsyncConnection,
        until: float,
        attempt: Attempt,
    ) -> None:
        """Hands the outcome of the attempt on; an error only when the call cannot be repeated."""
        if attempt.cancelled() or future.done():
            return
        error = attempt.exception()
        if error is None:
            future.set_result(attempt.result())
        elif isinstance(error, RpcClientError):
            tries = self._sender.tries(self._idempotent)
            repeats = self._sender.recover(error, request, connection, until, tries)
            task = asyncio.get_running_loop().create_task(repeats)
            task.add_done_callback(partial(_copy, future))
            future.add_done_callback(partial(_cancel, task))


def _copy(future: asyncio.Future[Any], task: asyncio.Future[Any]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _cancel(attempt: asyncio.Future[Any], future: asyncio.Future[Any]) -> None:
    """Nobody waits for `future` any more, if it was not settled by `attempt` itself."""
    attempt.cancel()
