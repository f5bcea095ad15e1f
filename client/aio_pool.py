"""The connections of one asynchronous client: like `pool`, for the tasks of one event loop."""

from __future__ import annotations

import asyncio

from .aio_connection import AsyncConnection, open_connection
from .errors import RpcClientError, local_deadline
from .options import Options
from .places import Places
from .request import Request


class AsyncPool:
    """At most `options.connections` active ones, made when all there are have calls in flight.

    Those to an address that is no longer in use are retired, and closed when they are idle.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connecting = asyncio.Lock()
        self._places = Places(options.addresses)
        self._active: list[AsyncConnection] = []
        self._retired: list[AsyncConnection] = []
        self._closed = False

    async def take(self, request: Request, until: float) -> AsyncConnection:
        """The connection with the fewest calls in flight, for `request`, by `until`.

        ConnectionFailed, or the RemoteError by which the server refuses us: the next call is then
        made at the next address. DeadlineExceeded while others connect. RuntimeError if closed.
        """
        since = asyncio.get_running_loop().time()
        found = self._least_busy()
        if found is not None and (self._connecting.locked() or not self._may_add(found)):
            return found
        try:
            async with asyncio.timeout_at(until):
                await self._connecting.acquire()
        except TimeoutError:
            raise local_deadline(request.method, str(self._places), request.limit_s) from None
        try:
            return await self._add(since, until)
        finally:
            self._connecting.release()

    def move_on(self, connection: AsyncConnection) -> None:
        """The server at its other end serves no more: the next call goes to the next address."""
        if connection in self._active:
            self._retired += self._active
            self._active = []
            self._places.move_on(self._places.epoch)

    async def close(self) -> None:
        """Calls under way fail with ConnectionLost, and `take` raises RuntimeError."""
        self._closed = True
        async with self._connecting:
            connections = self._active + self._retired
            self._active, self._retired = [], []
        for connection in connections:
            await connection.close("closed by this client")

    def _least_busy(self) -> AsyncConnection | None:
        """Of those that live."""
        if self._closed:
            raise RuntimeError(f"the client of {self._places} has been closed")
        self._close_idle()
        self._active = [connection for connection in self._active if connection.alive()]
        return min(self._active, key=lambda connection: connection.in_flight, default=None)

    def _may_add(self, least_busy: AsyncConnection) -> bool:
        return self._places.may_add(
            least_busy.in_flight,
            len(self._active),
            self._options.connections,
            asyncio.get_running_loop().time(),
        )

    async def _add(self, since: float, until: float) -> AsyncConnection:
        """One more connection, unless another task has made one, or failed, since `since`."""
        found = self._least_busy()
        if found is not None and not self._may_add(found):
            return found
        failure = self._places.failure(since)
        if failure is not None:
            raise failure
        epoch, address = self._places.epoch, self._places.address
        try:
            connection = await open_connection(
                self._options, address, until - asyncio.get_running_loop().time()
            )
        except RpcClientError as error:
            self._places.fail(error, epoch, asyncio.get_running_loop().time(), move=found is None)
            if found is None:
                raise
            return found
        fresh = epoch == self._places.epoch
        (self._active if fresh else self._retired).append(connection)
        return connection

    def _close_idle(self) -> None:
        idle = [connection for connection in self._retired if not connection.in_flight]
        self._retired = [c for c in self._retired if c not in idle]
        for connection in idle:
            connection.lose("another server is used now")
