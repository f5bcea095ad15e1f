"""How the calls of one synchronous client are sent, and sent again."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from .attempt import Attempt
from .errors import RpcClientError
from .options import Options
from .pool import Pool
from .request import Request
from .retry import RetryBudget, Tries, goes_elsewhere
from .turn import lock_s


class Sender:
    """What the calls of a client have in common. Moments are seconds of the monotonic clock."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._pool = Pool(options)
        self._budget = RetryBudget(options.retry)
        self._closing = threading.Event()

    def tries(self, idempotent: bool) -> Tries:
        """Those of a new call."""
        options = self.options
        return Tries(options.retry, self._budget, len(options.addresses), idempotent=idempotent)

    def send_first(
        self,
        requests: Sequence[Request],
        attempts: Sequence[Attempt],
        tries: Tries,
        *,
        batch: bool = False,
    ) -> None:
        """Sends one message, which counts for the budget; raises when it could not be sent."""
        self._budget.deposit(len(requests))
        until = time.monotonic() + requests[0].limit_s
        self._send(requests, attempts, until, tries, batch)

    def send_again(self, request: Request, until: float, tries: Tries) -> Attempt:
        """Sends a call once more, with what is left of its time."""
        attempt = Attempt(request)
        request = request.again(until - time.monotonic(), tries.sent)
        self._send([request], [attempt], until, tries, False)
        return attempt

    def due(self, error: RpcClientError, attempt: Attempt, tries: Tries) -> float | None:
        """When a call that was answered so is to be sent again; None if the error stands."""
        if goes_elsewhere(error):
            self._pool.move_on(attempt.connection)
        tries.sent += 1
        now = time.monotonic()
        delay_s = tries.after(error, attempt.until - now)
        return None if delay_s is None else now + delay_s

    def pause(self, until: float) -> bool:
        """Sleeps; False if the client is closed meanwhile."""
        return not self._closing.wait(lock_s(until - time.monotonic()))

    def close(self) -> None:
        """Ends every call and every pause."""
        self._closing.set()
        self._pool.close()

    def after_fork(self) -> None:
        """In the child: the locks may be held by threads that are not here."""
        closed = self._closing.is_set()
        self._closing = threading.Event()
        if closed:
            self._closing.set()
        self._budget = RetryBudget(self.options.retry)
        self._pool.after_fork()

    def _send(
        self,
        requests: Sequence[Request],
        attempts: Sequence[Attempt],
        until: float,
        tries: Tries,
        batch: bool,
    ) -> None:
        """Sends one message; what cannot be sent is tried again here, as far as `tries` allow."""
        while True:
            try:
                connection = self._pool.take(requests[0], until)
                connection.send(requests, attempts, until, batch=batch)
                return
            except RpcClientError as error:
                now = time.monotonic()
                delay_s = tries.after(error, until - now)
                if delay_s is None or not self.pause(now + delay_s):
                    raise
            left_s = until - time.monotonic()
            requests = [request.again(left_s, tries.sent) for request in requests]
