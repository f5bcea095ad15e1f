"""The HTTP listener of the admin process: connections in, `dispatch`ed requests answered.

It shares the process's one loop with `faircall stats`, and reads shared memory without a lock: a
client that asks too much slows other operators, and no reader.

    MAX_CONNECTIONS   at a time; one more is closed at once
    REQUEST_S         for the first byte, for a request to arrive once it has begun, and for its
                      answer to be taken
    IDLE_S            between two requests of a connection
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from ..acceptor.listeners import Listener
from ..settings.bind_address import BindAddress
from ..wire.http_reply import Reply
from .http_access import Access, Place
from .http_routes import Routes, dispatch
from .http_wire import HttpRequest, HttpWire

log = logging.getLogger("faircall.admin")

MAX_CONNECTIONS = 32
REQUEST_S = 10.0
IDLE_S = 120.0  # a scrape a minute keeps its connection
_CHUNK_BYTES = 16 << 10


class HttpListener:
    """`serve` from within the loop, `close` at its end. `listeners` are the sockets."""

    def __init__(self, listeners: Sequence[Listener], routes: Routes, access: Access) -> None:
        self._listeners, self._routes, self._access = listeners, routes, access
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Listen from now on, in the loop that runs."""
        for listener in self._listeners:
            accept = _Accept(self, _place_of(listener))
            start = asyncio.start_unix_server if listener.path else asyncio.start_server
            self._servers.append(await start(accept, sock=listener.socket.dup()))
            log.info("admin listens", {"address": listener.address})

    def close(self) -> None:
        """Take no more connections; those that there are end with the loop."""
        for server in self._servers:
            server.close()

    def accept(
        self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            log.warning("too many admin connections", {"connections": len(self._connections)})
            writer.close()
            return
        connection = asyncio.create_task(self._converse(place, reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _converse(
        self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Until the client has said all, is too slow, or is refused for good."""
        wire, patience_s = HttpWire(), REQUEST_S
        try:
            while not wire.closing:
                answer = await self._next_answer(wire, place, reader, patience_s)
                if answer is None:
                    break
                writer.write(answer)
                async with asyncio.timeout(REQUEST_S):
                    await writer.drain()
                await asyncio.sleep(0)  # who sends many requests at once takes turns, too
                patience_s = IDLE_S
            writer.close()
            async with asyncio.timeout(REQUEST_S):
                await writer.wait_closed()
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.transport.abort()  # what it has not taken by now it will never get

    async def _next_answer(
        self, wire: HttpWire, place: Place, reader: asyncio.StreamReader, patience_s: float
    ) -> bytes | None:
        """What answers the next request; None: there is none any more."""
        request = None
        try:
            request = await _next_request(wire, reader, patience_s)
            if request is None:
                return None
            request = replace(request, user=self._access.check(request, place))
            return wire.answer(request, await dispatch(self._routes, request))
        except Reply as reply:
            return wire.refuse(request, reply)


async def _next_request(
    wire: HttpWire, reader: asyncio.StreamReader, patience_s: float
) -> HttpRequest | None:
    """The next request, which begins within `patience_s`; None at the end of all.

    TimeoutError, Reply.
    """
    if not wire.mid_request:
        async with asyncio.timeout(patience_s):
            wire.receive(await reader.read(_CHUNK_BYTES))
    async with asyncio.timeout(REQUEST_S):
        while (request := wire.next_request()) is None:
            data = await reader.read(_CHUNK_BYTES)
            if not data:
                return None
            wire.receive(data)
    return request


class _Accept:
    """Called by asyncio for each connection that comes in at `place`."""

    def __init__(self, listener: HttpListener, place: Place) -> None:
        self._listener, self._place = listener, place

    def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._listener.accept(self._place, reader, writer)


def _place_of(listener: Listener) -> Place:
    if listener.path is not None:
        return Place(is_unix=True)
    host, port = listener.socket.getsockname()[:2]
    return Place(is_loopback=BindAddress(port, host=host, port=port).is_loopback)
