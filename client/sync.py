"""The synchronous client."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from .address import parse_address
from .connect import open_connection
from .connection import Connection
from .future import Future
from .options import Options
from .request import Request

Send = Callable[[Sequence[Request], Sequence[Future], bool], None]


class Client:
    """Calls the methods of one server; many threads may use it at once.

    It connects at the first call, over one connection on which calls overtake each other (not over
    HTTP, whose answers come in the order of the calls). When that ends, the calls under way fail
    with ConnectionLost and the next call connects anew. After a fork the child connects for itself.

    `timeout` and `connect_timeout` are in seconds; a `timeout` of None leaves it to the server.
    `user`: on whose behalf, where the server trusts us to say so; `token`: the bearer token that
    proves it; `context`: a text for the server's log.
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
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False
        _clients.add(self)

    def call(self, method: str, /, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """The result of `method`, or one of the errors of `faircall.client.errors`.

        Parameters are positional or named, bytes are sent as base64. `timeout` (s) is this call's.
        """
        return self.submit(method, *args, timeout=timeout, **kwargs).result()

    def submit(
        self, method: str, /, *args: Any, timeout: float | None = None, **kwargs: Any
    ) -> Future:
        """Sends the call and does not wait: many may be under way at once."""
        request = self._options.request(method, args, kwargs, self._options.limit_s(timeout))
        future = Future(request)
        self._send([request], [future])
        return future

    def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """Sends a call that is never answered, whether it runs or not."""
        limit_s = self._options.limit_s(None)
        request = self._options.request(method, args, kwargs, limit_s, notification=True)
        self._send([request], [])

    def batch(self, *, timeout: float | None = None) -> Batch:
        """Calls that are sent as one message when the `with` block ends."""
        return Batch(self._options, self._send, self._options.limit_s(timeout))

    def close(self) -> None:
        """Calls under way fail with ConnectionLost, and no more can be made."""
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close("closed by this client")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(
        self, requests: Sequence[Request], futures: Sequence[Future], batch: bool = False
    ) -> None:
        limit_s = requests[0].limit_s
        until = time.monotonic() + limit_s
        self._connected(limit_s).send(requests, futures, until, batch=batch)

    def _connected(self, limit_s: float) -> Connection:
        """The connection, a new one if there is none that lives; others wait while it is made."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the client of {self._options.address} has been closed")
            if self._connection is not None and not self._connection.alive():
                ended, self._connection = self._connection, None
                ended.close("the connection had ended")
            if self._connection is None:
                self._connection = open_connection(self._options, limit_s)
            return self._connection

    def _after_fork(self) -> None:
        """In the child: the locks may be held by threads that are not here."""
        self._lock = threading.Lock()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()


class Batch:
    """Gathers calls: `with client.batch() as batch: sum = batch.add("add", 1, 2)`, then
    `sum.result()`. They run in any order; an exception in the block means that none is sent."""

    def __init__(self, options: Options, send: Send, limit_s: float) -> None:
        self._options = options
        self._send = send
        self._limit_s = limit_s
        self._requests: list[Request] = []
        self._futures: list[Future] = []

    def add(self, method: str, /, *args: Any, **kwargs: Any) -> Future:
        """One more call; its result can be had when the batch has been sent."""
        request = self._options.request(method, args, kwargs, self._limit_s)
        self._requests.append(request)
        self._futures.append(Future(request))
        return self._futures[-1]

    def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """One more call, but one that is never answered."""
        options, limit_s = self._options, self._limit_s
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
            self._send(self._requests, self._futures, True)


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
