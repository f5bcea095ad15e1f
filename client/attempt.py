"""One sending of a call in the synchronous client, and what became of it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from .errors import ConnectionFailed, ConnectionLost, local_deadline
from .protocol import Answer
from .request import Request, cancel_request

if TYPE_CHECKING:
    from .connection import Connection


class Attempt:
    """Bound to a connection by which it is sent. `answer` is None until it is settled."""

    def __init__(self, request: Request) -> None:
        self.answer: Answer | None = None
        self.until = 0.0
        self._request = request
        self._connection: Connection | None = None
        self._id = 0

    @property
    def sent(self) -> bool:
        """Whether it has been sent, or begun to be."""
        return self._connection is not None

    @property
    def connection(self) -> Connection:
        """The one that it was sent through."""
        if self._connection is None:
            raise RuntimeError(f"{self._request.method} has not been sent: its batch is still open")
        return self._connection

    def settled(self) -> bool:
        """Whether the outcome is here; does not touch the connection."""
        return self.answer is not None

    def bind(self, connection: Connection, id: int, until: float) -> None:
        """It is being sent: its place on the connection and when the time of the call is over."""
        self._connection, self._id, self.until = connection, id, until
        self.answer = None

    def settle(self, answer: Answer) -> None:
        """The outcome; called by the connection, once for each `bind`."""
        self.answer = answer

    def expire(self) -> None:
        """The time of the call is over: unless it was answered, that is its outcome."""
        request, connection = self._request, self.connection
        error = local_deadline(request.method, connection.address, request.limit_s)
        connection.expire(Answer(self._id, error=error))

    def look(self) -> None:
        """Takes in what has come, without waiting."""
        if not self.settled():
            self.connection.alive()

    def wait(self, limit: float) -> Answer | None:
        """The outcome; None if there is none at `limit`, seconds of the monotonic clock."""
        connection = self.connection
        while self.answer is None:
            connection.wait(self, min(limit, self.until))
            now = time.monotonic()
            if now >= self.until:
                self.expire()
            elif now >= limit:
                break
        return self.answer

    def cancel(self) -> None:
        """Asks the server to drop the call, unless it is settled or was not sent."""
        if self._connection is not None and not self.settled():
            with contextlib.suppress(ConnectionFailed, ConnectionLost):
                self._connection.send([cancel_request(self._id)], [], self.until)
