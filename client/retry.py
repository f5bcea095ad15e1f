"""When a call is made again: arithmetic, with time and chance handed in.

A call is made again if it certainly did not run, or if it may run twice.

| what became of it                                | did it run? | is made again               |
| ------------------------------------------------ | ----------- | --------------------------- |
| no connection; the connection ended before it    | no          | yes, at the next address    |
| -32052 shutting down, -32057 standby             | no          | yes, at the next address    |
| -32005 a limit of the server refused it          | no          | yes                         |
| one of these, but with `retriable: false`        | perhaps     | if idempotent               |
| the connection ended after it, -32053            | perhaps     | if idempotent               |
| any error with `retriable: true`                 | as may be   | yes: so the server says     |
| any other error, no answer in time, no JSON-RPC  | perhaps     | no                          |

To an address that it has not tried a call goes at once. Before its n-th repeat it waits for

    retry_after + random() * max(min(cap, base * 2**(n - 1)), retry_after / 2)

with `retry_after` from the server, else 0. That is "full jitter" (Brooker, Exponential Backoff
and Jitter, AWS 2015) above a floor; the last term parts those who were told the same. A repeat
that could not begin within the call's time is not waited for: the error is raised at once.

The budget is that of Finagle: a call puts `share` tokens into a bucket of at most `burst`, a repeat
of what has reached a server takes one, and where there is none, the error stands. So repeats are
at most `burst + share * calls`, and a server in overload is not pushed further into it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import (
    HANDLER_DIED,
    LIMIT_EXCEEDED,
    SHUTTING_DOWN,
    STANDBY,
    ConnectionFailed,
    ConnectionLost,
    RemoteError,
    RpcClientError,
)

_ELSEWHERE = (SHUTTING_DOWN, STANDBY)
_REFUSED = (LIMIT_EXCEEDED, *_ELSEWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, how fast and how much a client repeats.

    `attempts`: how often a call is made at most; addresses that it tries for the first time are
    not counted, so that 1 means to look for a server that serves and no more. `base_s`, `cap_s`:
    the first and the longest back-off, in seconds. `share`, `burst`: of 100 calls, `share` * 100
    may be repeats, and `burst` more in all. `random` gives numbers from 0 up to 1.
    """

    attempts: int = 4
    base_s: float = 0.1
    cap_s: float = 5.0
    share: float = 0.1
    burst: float = 10.0
    random: Callable[[], float] = field(default=random.random, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be 1 or more, not {self.attempts}")
        if not 0 <= self.base_s <= self.cap_s:
            raise ValueError(f"0 <= base_s <= cap_s must hold, not {self.base_s}, {self.cap_s}")
        if not (self.share >= 0 and self.burst >= 0):
            raise ValueError(f"share and burst cannot be {self.share} and {self.burst}")

    def delay_s(self, repeat: int, retry_after_s: float = 0.0) -> float:
        """How long to wait before the repeat number `repeat`, which counts from 1."""
        backoff_s = min(self.cap_s, self.base_s * 2.0 ** min(repeat - 1, 1000))
        return retry_after_s + self.random() * max(backoff_s, retry_after_s / 2)


DEFAULT_RETRY = Retry()


class RetryBudget:
    """The tokens of one client, for all its threads. None without a `retry`."""

    def __init__(self, retry: Retry | None) -> None:
        self._share = retry.share if retry else 0.0
        self._burst = retry.burst if retry else 0.0
        self._tokens = self._burst
        self._lock = threading.Lock()

    def deposit(self, calls: int) -> None:
        """`calls` are made, each for the first time."""
        with self._lock:
            self._tokens = min(self._burst, self._tokens + self._share * calls)

    def withdraw(self) -> bool:
        """Takes the token of one repeat; False if there is none."""
        with self._lock:
            granted = self._tokens >= 1
            self._tokens -= granted
        return granted


class Tries:
    """Those of one call, or of one message: ask `after` about each failure, once.

    Without a `retry` none is repeated.
    """

    def __init__(
        self,
        retry: Retry | None,
        budget: RetryBudget,
        addresses: int = 1,
        *,
        idempotent: bool = False,
    ) -> None:
        self.sent = 0  # how often it has been sent, which is `meta.attempt` of the next time
        self._retry = retry
        self._budget = budget
        self._addresses = addresses
        self._idempotent = idempotent
        self._made = 1
        self._moves = 0

    def after(self, error: RpcClientError, left_s: float) -> float | None:
        """How long to wait, in seconds, before the next attempt; None: `error` stands.

        `left_s`: what is left of the call's time.
        """
        if self._retry is None or left_s <= 0 or not may_repeat(error, self._idempotent):
            return None
        if goes_elsewhere(error):
            self._moves += 1
            if self._moves % self._addresses:
                return 0.0
        if self._made >= self._retry.attempts:
            return None
        reached = not isinstance(error, ConnectionFailed)
        delay_s = self._retry.delay_s(self._made, _retry_after_s(error))
        self._made += 1
        if not delay_s < left_s or (reached and not self._budget.withdraw()):
            return None
        return delay_s


def may_repeat(error: RpcClientError, idempotent: bool) -> bool:
    """Whether the call that failed so may be made again: the table above."""
    if isinstance(error, ConnectionFailed):
        return True
    if isinstance(error, ConnectionLost):
        return idempotent
    if not isinstance(error, RemoteError):
        return False
    if error.code in _REFUSED:
        return idempotent or not error.denies_retry
    return error.retriable or (error.code == HANDLER_DIED and idempotent)


def goes_elsewhere(error: RpcClientError) -> bool:
    """Whether the next call had better be made at another address."""
    if isinstance(error, RemoteError):
        return error.code in _ELSEWHERE
    return isinstance(error, ConnectionFailed)


def _retry_after_s(error: RpcClientError) -> float:
    ms = error.retry_after_ms if isinstance(error, RemoteError) else None
    return max(ms or 0.0, 0.0) / 1000
