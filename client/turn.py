"""Who reads: of the threads that wait for answers on one connection, one at a time.

The *leader* has the turn and reads, for itself and for the others. The *followers* sleep, each
until its own call is answered or the turn is handed to it. A turn is handed over, never dropped:
a leader that stops while others wait has made one of them the leader. No thread is needed that
does nothing but read, so nothing is lost by a fork and nothing need be stopped at the end.

A follower looks whether its call is done under the lock under which it lies down, and a leader
wakes under that lock after the call is done: so no wake-up falls between look and sleep.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class ReadingTurn:
    """One per connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two below; nothing else is taken under it
        self._leader: object | None = None
        self._followers: dict[object, tuple[threading.Lock, Callable[[], bool]]] = {}

    def try_take(self) -> bool:
        """Takes the turn if it is free."""
        with self._lock:
            free = self._leader is None
            if free:
                self._leader = object()
        return free

    def take(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Sleeps until the turn is ours (True: `give` it back), or `done()` or time over (False).

        `timeout_s` may be infinite. `done` is called under the lock: it may only look.
        """
        ticket, wake = object(), threading.Lock()
        with self._lock:
            if done():
                return False
            if self._leader is None:
                self._leader = ticket
                return True
            wake.acquire()
            self._followers[ticket] = wake, done
        try:
            wake.acquire(timeout=lock_s(timeout_s))
        except BaseException:
            if self._rise(ticket):
                self.give()
            raise
        return self._rise(ticket)

    def give(self) -> None:
        """Hands the turn to the follower who has waited longest, or leaves it free."""
        with self._lock:
            self._leader = next(iter(self._followers), None)
            if self._leader is not None:
                self._followers.pop(self._leader)[0].release()

    def wake_done(self) -> None:
        """The leader calls it after calls were answered: their followers get up."""
        with self._lock:
            awake = [ticket for ticket, (_, done) in self._followers.items() if done()]
            for ticket in awake:
                self._followers.pop(ticket)[0].release()

    def _rise(self, ticket: object) -> bool:
        """A follower gets up: whether it is the leader now."""
        with self._lock:
            self._followers.pop(ticket, None)
            return self._leader is ticket


def lock_s(left_s: float) -> float:
    """Seconds as the time-out of a lock takes them: not below 0, not infinite."""
    return min(max(left_s, 0.0), threading.TIMEOUT_MAX)
