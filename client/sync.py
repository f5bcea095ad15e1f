"""The synchronous client."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from .address import Address, parse_addresses
from .batch import Batch
from .future import Future
from .options import Options
from .retry import DEFAULT_RETRY, Retry
from .sender import Sender


class Client:
    """Calls the methods of a server; many threads may use it at once.

    It connects at the first call, and calls overtake each other on their connection (not over
    HTTP, whose answers come in the order of the calls). When it ends, the calls under way fail with
    ConnectionLost and the next call connects anew. After a fork the child connects for itself.

    `addresses` are those of one or several servers of the same service, in a list or separated by
    commas. It uses one until that cannot be reached, is shutting down or on standby, and then the
    next in turn. `connections`: how many it may have at once; a call goes to the one with the
    fewest calls in flight, and one more is made when all have some.

    `timeout` and `connect_timeout` are in seconds; a `timeout` of None leaves it to the server.
    `user`: on whose behalf, where the server trusts us to say so; `token`: the bearer token that
    proves it; `context`: a text for the server's log.

    An error that the server answers is a `RemoteError` with `code`, `message`, `data` and `reason`;
    `Busy` and `DeadlineExceeded` are kinds of it. No connection: `ConnectionFailed`. All of them
    are `RpcClientError`s, and can be had from `faircall`.

    `retry`: a call that certainly did not run is made again within its `timeout`: the server was
    not reached, is shutting down or on standby, or too busy (then not before the time it names).
    One that may have run is repeated only if it says `idempotent=True`, or the server says that
    it may be. `Retry(...)` sets how often and how fast; under overload, repeats are a tenth of the
    calls. None repeats nothing. `faircall.client.retry` has the rules.
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
        self._sender = Sender(self._options)
        _clients.add(self)

    def call(
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
        future = self.submit(method, *args, timeout=timeout, idempotent=idempotent, **kwargs)
        return future.result()

    def submit(
        self,
        method: str,
        /,
        *args: Any,
        timeout: float | None = None,
        idempotent: bool = False,
        **kwargs: Any,
    ) -> Future:
        """Sends the call and does not wait for its answer: many may be under way at once.

        Raises if it cannot be sent.
        """
        request = self._options.request(method, args, kwargs, self._options.limit_s(timeout))
        future = Future(request, self._sender, idempotent=idempotent)
        self._sender.send_first([request], [future.attempt], future.tries)
        return future

    def notify(self, method: str, /, *args: Any, **kwargs: Any) -> None:
        """Sends a call that is never answered, whether it runs or not."""
        limit_s = self._options.limit_s(None)
        request = self._options.request(method, args, kwargs, limit_s, notification=True)
        self._sender.send_first([request], [], self._sender.tries(idempotent=False))

    def batch(self, *, timeout: float | None = None, idempotent: bool = False) -> Batch:
        """Calls that are sent as one message when the `with` block ends."""
        return Batch(self._sender, self._options.limit_s(timeout), idempotent=idempotent)

    def close(self) -> None:
        """Calls under way fail with ConnectionLost, and no more can be made."""
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._sender.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
