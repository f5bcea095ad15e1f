"""One connection of the asynchronous client: transport below, futures above, no task between."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

from .address import Address
from .errors import (
    ConnectionLost,
    DeadlineExceeded,
    RemoteError,
    connection_failed,
    hello_refused,
    hello_unanswered,
    local_deadline,
)
from .options import Options
from .protocol import Answer, ClientProtocol
from .request import Request, cancel_request

QUEUE_FULL_RETRY_S = 0.01


class AsyncConnection(asyncio.Protocol):
    """Used from its event loop only. A future that is cancelled takes its call back."""

    def __init__(self, protocol: ClientProtocol, address: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self.address = address
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._gone = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """How many calls wait for their answers."""
        return len(self._calls)

    def alive(self) -> bool:
        """Whether calls can be sent."""
        return not self._protocol.ended

    async def room(self, until: float) -> None:
        """Returns when enough of what was sent before is on its way; TimeoutError at `until`."""
        if not self._room.is_set():
            async with asyncio.timeout_at(until):
                await self._room.wait()

    def send(
        self,
        requests: Sequence[Request],
        futures: Sequence[asyncio.Future[Any]],
        until: float,
        *,
        batch: bool = False,
    ) -> None:
        """Sends one message; each future, one for each request that is answered, gets its outcome.

        ConnectionFailed if the connection has ended. `until`: seconds of the loop's clock.
        """
        if self._protocol.ended or self._transport is None:
            raise self._protocol.not_sent(requests)
        ids, message = self._protocol.send(requests, batch=batch)
        asked = [request for request in requests if not request.notification]
        for id, request, future in zip(ids, asked, futures, strict=True):
            self._calls[id] = future
            self._watch(id, future, request, until)
        self._transport.write(message)

    async def close(self, why: str) -> None:
        """Fails every open call; returns when the socket is closed."""
        self.lose(why)
        if self._transport is not None:
            await self._gone.wait()

    def lose(self, why: str) -> None:
        """Fails every open call, and lets the socket be closed."""
        self._settle(self._protocol.lose(why))
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._room.set()

    def data_received(self, data: bytes) -> None:
        self._settle(self._protocol.receive(data))

    def eof_received(self) -> None:
        self._settle(self._protocol.receive_eof())

    def connection_lost(self, error: Exception | None) -> None:
        why = f"the connection broke ({error})" if error else "the server closed the connection"
        self._settle(self._protocol.lose(why))
        self._room.set()
        self._gone.set()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def _watch(self, id: int, future: asyncio.Future[Any], request: Request, until: float) -> None:
        timer = None
        if math.isfinite(until):
            timer = self._loop.call_at(until, self._expire, id, request)
        future.add_done_callback(partial(self._done, id, timer))

    def _done(
        self, id: int, timer: asyncio.TimerHandle | None, future: asyncio.Future[Any]
    ) -> None:
        if timer is not None:
            timer.cancel()
        if future.cancelled():
            self._take_back(id)

    def _expire(self, id: int, request: Request) -> None:
        """The time of a call is over; an answer that comes later is dropped."""
        error = local_deadline(request.method, self.address, request.limit_s)
        self._settle([Answer(id, error=error)])

    def _take_back(self, id: int) -> None:
        """The caller does not wait any more: the server is asked to drop the call."""
        if self._calls.pop(id, None) is None or self._protocol.ended or self._transport is None:
            return
        self._transport.write(self._protocol.send([cancel_request(id)])[1])

    def _settle(self, answers: list[Answer]) -> None:
        """Answers to calls for which no one waits any more are dropped."""
        for answer in answers:
            future = self._calls.pop(answer.id, None)
            if future is None or future.done():
                continue
            if answer.error is not None:
                future.set_exception(answer.error)
            else:
                future.set_result(answer.result)
        if self._protocol.ended and self._transport is not None:
            self._transport.abort()


async def open_connection(options: Options, place: Address, limit_s: float) -> AsyncConnection:
    """Connects, within `limit_s` seconds and the connect time-out, and says who is calling.

    ConnectionFailed; or the RemoteError by which the server refuses the name.
    """
    limit_s = min(limit_s, options.connect_timeout_s)
    until = asyncio.get_running_loop().time() + limit_s
    address = str(place)
    try:
        async with asyncio.timeout_at(until):
            connection = await _connect(options, place)
    except OSError as error:
        raise connection_failed(address, error, limit_s) from error
    hello = options.hello(place, limit_s)
    if hello is not None:
        await _say_hello(connection, hello, until, address)
    return connection


async def _say_hello(
    connection: AsyncConnection, hello: Request, until: float, address: str
) -> None:
    accepted: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    try:
        connection.send([hello], [accepted], until)
        await accepted
    except BaseException as error:
        await connection.close("the server did not accept who is calling")
        if isinstance(error, ConnectionLost | DeadlineExceeded):
            raise hello_unanswered(address, error) from error
        if isinstance(error, RemoteError):
            raise hello_refused(error) from None
        raise


async def _connect(options: Options, address: Address) -> AsyncConnection:
    loop = asyncio.get_running_loop()

    def make() -> AsyncConnection:
        return AsyncConnection(options.protocol(address), str(address))

    if address.dial:
        sock = address.dial()
        sock.setblocking(False)
        return (await loop.create_unix_connection(make, sock=sock))[1]
    if address.path:
        sock = await _connect_unix(address.path)
        return (await loop.create_unix_connection(make, sock=sock))[1]
    return (await loop.create_connection(make, address.host, address.port))[1]


async def _connect_unix(path: str) -> socket.socket:
    """Tries again while the server's queue is full: no event tells of room (unix(7))."""
    sock = socket.socket(socket.AF_UNIX)
    sock.setblocking(False)
    try:
        while True:
            try:
                sock.connect(path)
            except BlockingIOError:
                await asyncio.sleep(QUEUE_FULL_RETRY_S)
            else:
                return sock
    except BaseException:
        sock.close()
        raise
