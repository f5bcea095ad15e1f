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
        self._connected: asyncio.Event | None = None  # while a connection is being made
        self._places = Places(options.addresses)
        self._active: list[AsyncConnection] = []
        self._retired: list[AsyncConnection] = []
        self._closed = False

    async def take(self, request: Request, until: float) -> AsyncConnection:
        """The connection with the fewest calls in flight, for `request`, by `until`.

        ConnectionFailed, or the RemoteError by which the server refuses us: the next call is then
        made at the next address. DeadlineExceeded while others connect. RuntimeError if closed.
        """
        since = _now()
        while True:
            found = self._least_busy()
            if self._may_connect(found, since):
                return await self._connect(found, until)
            if found is not None:
                return found
            if self._connected is not None:
                try:
                    async with asyncio.timeout_at(until):
                        await self._connected.wait()
                except TimeoutError:
                    place = str(self._places)
                    raise local_deadline(request.method, place, request.limit_s) from None

    def move_on(self, connection: AsyncConnection) -> None:
        """The server at its other end serves no more: the next call goes to the next address."""
        if connection in self._active:
            self._retired += self._active
            self._active = []
            self._places.move_on(self._places.epoch)

    async def close(self) -> None:
        """Calls under way fail with ConnectionLost, and `take` raises RuntimeError."""
        self._closed = True
        connections = self._active + self._retired
        self._active, self._retired = [], []
        for connection in connections:
            await connection.close("closed by this client")

    def _least_busy(self) -> AsyncConnection | None:
        """Of those that live."""
        self._check_open()
        self._close_idle()
        self._active = [connection for connection in self._active if connection.alive()]
        return min(self._active, key=lambda connection: connection.in_flight, default=None)

    def _may_connect(self, found: AsyncConnection | None, since: float) -> bool:
        """Whether this task is to make a connection, where `found` is the best there is.

        Raises why none could be made at `since` or later.
        """
        if self._connected is not None:
            return False
        if found is not None:
            most = self._options.connections
            return self._places.may_add(found.in_flight, len(self._active), most, _now())
        failure = self._places.failure(since)
        if failure is not None:
            raise failure
        return True

    async def _connect(self, found: AsyncConnection | None, until: float) -> AsyncConnection:
        """A new connection, or else `found`; the error if there is neither."""
        self._connected = connected = asyncio.Event()
        epoch, address = self._places.epoch, self._places.address
        try:
            connection = await open_connection(self._options, address, until - _now())
            await self._keep(connection, epoch)
            return connection
        except RpcClientError as error:
            self._places.fail(error, epoch, _now(), move=found is None)
            if found is None:
                raise
            return found
        finally:
            self._connected = None
            connected.set()

    async def _keep(self, connection: AsyncConnection, epoch: int) -> None:
        if self._closed:
            await connection.close("closed by this client")
        self._check_open()
        fresh = epoch == self._places.epoch
        (self._active if fresh else self._retired).append(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the client of {self._places} has been closed")

    def _close_idle(self) -> None:
        idle = [connection for connection in self._retired if not connection.in_flight]
        self._retired = [c for c in self._retired if c not in idle]
        for connection in idle:
            connection.lose("another server is used now")


def _now() -> float:
    return asyncio.get_running_loop().time()
