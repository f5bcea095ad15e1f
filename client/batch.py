"""Calls that the synchronous client sends as one message."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from .future import Future
from .request import Request
from .sender import Sender


class Batch:
    """Gathers calls: `with client.batch() as batch: sum = batch.add("add", 1, 2)`, then
    `sum.result()`. They run in any order; an exception in the block means that none is sent.
    Those that are to be repeated are sent again one by one."""

    def __init__(self, sender: Sender, limit_s: float, *, idempotent: bool) -> None:
        self._sender = sender
        self._limit_s = limit_s
        self._idempotent = idempotent
        self._requests: list[Request] = []
        self._futures: list[Future] = []

    def add(self, method: str, /, *args: Any, **kwargs: Any) -> Future:
        """One more call; its result can be had when the batch has been sent."""
        request = self._sender.options.request(method, args, kwargs, self._limit_s)
        self._requests.append(request)
        self._futures.append(Future(request, self._sender, idempotent=self._idempotent))
        return self._futures[-1]

    def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """One more call, but one that is never answered."""
        options, limit_s = self._sender.options, self._limit_s
        self._requests.append(options.request(method, args, kwargs, limit_s, notification=True))

    def results(self) -> list[Any]:
        """The results in the order of `add`; raises the error of the first call that has one."""
        return [future.result() for future in self._futures]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self._requests:
            attempts = [future.attempt for future in self._futures]
            tries = self._sender.tries(self._idempotent)
            self._sender.send_first(self._requests, attempts, tries, batch=True)
