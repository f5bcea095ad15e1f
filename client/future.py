"""A call under way in the synchronous client."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from . import within
from .attempt import Attempt
from .errors import RemoteError, RpcClientError
from .protocol import Answer, answer_of
from .request import Request
from .turn import lock_s

if TYPE_CHECKING:
    from .sender import Sender


class Future:
    """Shaped like `concurrent.futures.Future`. Nothing reads in the background: the answer is
    taken in by whichever thread waits for this call, or for another on the same connection, and
    a call that may be repeated is sent again by the thread that waits for it, or asks `done`."""

    def __init__(self, request: Request, sender: Sender, *, idempotent: bool = False) -> None:
        self.method = request.method
        self.tries = sender.tries(idempotent)
        self.attempt = Attempt(request)  # the last one that was sent, or is to be sent first
        self._request = request
        self._sender = sender
        self._repeating = threading.Lock()  # guards what follows, and `attempt`
        self._due: float | None = None  # when the call is sent again, after the attempt failed
        self._outcome: Answer | None = None
        self._cancelled = False

    def done(self) -> bool:
        """Whether the outcome is here, or has come and can be taken in without waiting.

        Where the call is due to be sent again, sends it.
        """
        if not self.attempt.sent:
            return False
        self.attempt.look()
        return self._advance(time.monotonic()) is not None

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
        the result if that was quicker. Nothing is sent for a call that is done or not yet sent,
        and nothing is sent again."""
        self._cancelled = True
        if self.attempt.sent:
            self.attempt.look()
        self.attempt.cancel()

    def _wait(self, timeout_s: float | None) -> Answer:
        answer = self._advance(math.inf if timeout_s is None else time.monotonic() + timeout_s)
        if answer is None:
            raise TimeoutError(f"{self.method}: no answer yet after {timeout_s} s")
        return answer

    def _advance(self, limit: float) -> Answer | None:
        """The outcome that stands; None at `limit`, until which it waits and sends again."""
        while self._outcome is None:
            attempt = self.attempt
            answer = attempt.wait(limit)
            if answer is None or answer.error is None:
                return answer
            if isinstance(answer.error, RemoteError) and self._run_here(answer.error):
                break
            if not self._repeating.acquire(timeout=lock_s(limit - time.monotonic())):
                return None
            try:
                current = self._outcome is None and attempt is self.attempt
                if current and not self._repeat(answer, answer.error, limit):
                    return self._outcome
            finally:
                self._repeating.release()
        return self._outcome

    def _run_here(self, error: RemoteError) -> bool:
        """Whether this process ran the call, which its own server would not queue."""
        answer = within.run_here(error, self._request.encode(1))
        if answer is not None:
            self._outcome = answer_of(answer, self.method, error.address)
        return answer is not None

    def _repeat(self, answer: Answer, error: RpcClientError, limit: float) -> bool:
        """Sends the call again when that is due; False if the outcome stands, or at `limit`."""
        if self._due is None and not self._cancelled:
            self._due = self._sender.due(error, self.attempt, self.tries)
        if self._due is None or not self._sender.pause(min(self._due, limit)) or self._cancelled:
            self._outcome = answer
            return False
        if self._due > max(limit, time.monotonic()):
            return False
        try:
            self.attempt = self._sender.send_again(self._request, self.attempt.until, self.tries)
        except RpcClientError as failure:
            self._outcome = Answer(0, error=failure)
        self._due = None
        return True
