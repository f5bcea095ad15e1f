"""A call under way in the synchronous client."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Any

from .errors import ConnectionLost, local_deadline
from .protocol import Answer
from .request import Request, cancel_request

if TYPE_CHECKING:
    from .connection import Connection


class Future:
    """Shaped like `concurrent.futures.Future`. Nothing reads in the background: the answer is
    taken in by whichever thread waits for this call, or for another on the same connection."""

    def __init__(self, request: Request) -> None:
        self.method = request.method
        self._limit_s = request.limit_s
        self._connection: Connection | None = None
        self._id = 0
        self._until = 0.0
        self._answer: Answer | None = None

    def done(self) -> bool:
        """Whether the outcome is here, or has come and can be taken in without waiting."""
        if self._answer is None and self._connection is not None:
            self._connection.alive()
        return self.settled()

    def result(self, timeout: float | None = None) -> Any:
        """The result, or the error raised.

        TimeoutError after `timeout` seconds, while the call goes on; DeadlineExceeded when the
        time of the call itself is over.
        """
        answer = self._wait(timeout)
        if answer.error is not None:
            raise answer.error
        return answer.result

    def exception(self, timeout: float | None = None) -> Exception | None:
        """The error, or None for a call that went well; waits as `result` does."""
        return self._wait(timeout).error

    def cancel(self) -> None:
        """Asks the server to drop the call: `result` then raises RemoteError -32051, or gives
        the result if that was quicker. Nothing is sent for a call that is done or not yet sent."""
        if self._connection is not None and not self.done():
            with contextlib.suppress(ConnectionLost):
                self._connection.send([cancel_request(self._id)], [], self._until)

    def settled(self) -> bool:
        """Whether the outcome is here; does not touch the connection."""
        return self._answer is not None

    def bind(self, connection: Connection, id: int, until: float) -> None:
        """The call was sent: its place on the connection and when its time is over."""
        self._connection, self._id, self._until = connection, id, until

    def settle(self, answer: Answer) -> None:
        """The outcome; called once, by the connection."""
        self._answer = answer

    def expire(self) -> None:
        """The time of the call is over: unless it was answered, that is its outcome."""
        connection = self._sent_through()
        error = local_deadline(self.method, connection.address, self._limit_s)
        connection.expire(Answer(self._id, error=error))

    def _wait(self, timeout_s: float | None) -> Answer:
        connection = self._sent_through()
        limit = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while self._answer is None:
            connection.wait(self, min(limit, self._until))
            if time.monotonic() >= self._until:
                self.expire()
            elif self._answer is None and time.monotonic() >= limit:
                raise TimeoutError(f"{self.method}: no answer yet after {timeout_s} s")
        return self._answer

    def _sent_through(self) -> Connection:
        if self._connection is None:
            raise RuntimeError(f"{self.method} has not been sent: its batch is still open")
        return self._connection
