"""One socket that many threads call through; whoever waits for an answer reads it.

| field                   | read and written under           |
| ----------------------- | -------------------------------- |
| `_protocol`, `_calls`   | `_lock`                          |
| bytes to the socket     | `_sending`                       |
| bytes from the socket   | the turn                         |
| closing the descriptor  | `_sending` and the turn together |

Order: `_sending`, the turn, `_lock`. A sender that finds no room reads meanwhile if no one else
does: a server that waits for its answers to be taken never waits for ever. A connection that
broke is shut down at once, which ends every wait on it, and closed by `close`.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import threading
import time
from collections.abc import Sequence

from .attempt import Attempt
from .errors import ConnectionLost, local_deadline
from .protocol import Answer, ClientProtocol
from .request import Request
from .turn import ReadingTurn, lock_s

READ_BYTES = 1 << 18
SENDER_BACKSTOP_S = 0.05
MAX_POLL_MS = (1 << 31) - 1


class Connection:
    """Made of a connected, non-blocking socket."""

    def __init__(self, sock: socket.socket, protocol: ClientProtocol, address: str) -> None:
        self.address = address
        self._socket = sock
        self._protocol = protocol
        self._calls: dict[int, Attempt] = {}
        self._readable = select.poll()
        self._readable.register(sock, select.POLLIN)
        self._sending = threading.Lock()
        self._turn = ReadingTurn()
        self._lock = threading.Lock()

    @property
    def in_flight(self) -> int:
        """How many calls wait for their answers."""
        return len(self._calls)

    def alive(self) -> bool:
        """Whether calls can be sent. Takes in what has come, so that the server's close shows."""
        if self._turn.try_take():
            try:
                while not self._protocol.ended and self._read():
                    pass
            finally:
                self._turn.give()
        return not self._protocol.ended

    def send(
        self,
        requests: Sequence[Request],
        attempts: Sequence[Attempt],
        until: float,
        *,
        batch: bool = False,
    ) -> None:
        """Sends one message; the attempts, one for each request that is answered, are for waiting.

        What goes wrong from here on is the outcome of the attempts; ConnectionLost if there are
        none. ConnectionFailed if the connection had ended before anything was sent;
        DeadlineExceeded if at `until` (seconds of the monotonic clock) others are still sending.
        """
        if not self._sending.acquire(timeout=lock_s(until - time.monotonic())):
            raise local_deadline(requests[0].method, self.address, requests[0].limit_s)
        try:
            message = self._register(requests, attempts, until, batch)
            unsent = self._write(message, attempts, until) == len(message)
        finally:
            self._sending.release()
        if unsent and all(map(_lost, attempts)):
            raise self._protocol.not_sent(requests)
        if self._protocol.ended and not attempts:
            raise self._protocol.lost(requests)

    def wait(self, attempt: Attempt, until: float) -> None:
        """Returns when `attempt` is settled, or at `until`, not without a look at what has come."""
        while not attempt.settled():
            left_s = max(until - time.monotonic(), 0.0)
            if self._turn.take(attempt.settled, left_s):
                try:
                    self._read_for(attempt, until)
                finally:
                    self._turn.give()
            if left_s == 0.0:
                return

    def expire(self, outcome: Answer) -> None:
        """Settles a call unless it was answered; an answer that comes later is dropped."""
        with self._lock:
            self._settle([outcome])

    def close(self, why: str) -> None:
        """Fails every open call, and closes the socket when no thread uses it any more."""
        self._lose(why)
        with self._sending:
            self._turn.take(lambda: False, math.inf)
            self._socket.close()
            self._turn.give()

    def abandon(self) -> None:
        """In a child process after a fork: this connection remains the parent's alone.

        Takes no lock: another thread of the parent may have held it, and is not here.
        """
        self._settle(self._protocol.lose("the connection is that of the process before its fork"))
        self._socket.close()

    def _register(
        self, requests: Sequence[Request], attempts: Sequence[Attempt], until: float, batch: bool
    ) -> bytes:
        with self._lock:
            if self._protocol.ended:
                raise self._protocol.not_sent(requests)
            ids, message = self._protocol.send(requests, batch=batch)
            for id, attempt in zip(ids, attempts, strict=True):
                attempt.bind(self, id, until)
                self._calls[id] = attempt
        return message

    def _read_for(self, attempt: Attempt, until: float) -> None:
        """As the leader: reads until `attempt` is done or the time over."""
        while not attempt.settled():
            left_s = until - time.monotonic()
            if not self._readable.poll(poll_ms(left_s)):
                return
            self._read()
            if left_s <= 0:
                return

    def _read(self) -> bool:
        """As the leader: takes in what has come; False if nothing had."""
        try:
            data = self._socket.recv(READ_BYTES)
            with self._lock:
                self._settle(self._protocol.receive(data) if data else self._protocol.receive_eof())
        except BlockingIOError:
            return False
        except OSError as error:
            self._lose(f"the connection broke ({error.strerror or error})")
        except BaseException:
            self._lose("interrupted while reading")
            raise
        if self._protocol.ended:
            self._shut_down()
        self._turn.wake_done()
        return True

    def _write(self, message: bytes, attempts: Sequence[Attempt], until: float) -> int:
        """Writes it all; how many bytes it could not, after which the connection has ended."""
        left = memoryview(message)
        try:
            while left and not self._protocol.ended:
                try:
                    left = left[self._socket.send(left) :]
                except BlockingIOError:
                    if not self._await_room(until):
                        self._give_up(attempts)
        except OSError:
            self._shut_down()
            self.alive()  # reads to the end, where the server may have said why it closed
        except BaseException:
            self._lose("interrupted while sending")
            raise
        return len(left)

    def _await_room(self, until: float) -> bool:
        """Waits until more can be written, reading if no one does; False at `until`."""
        leads = self._turn.try_take()
        try:
            left_s = until - time.monotonic()
            poller = select.poll()
            poller.register(self._socket, select.POLLOUT | (select.POLLIN if leads else 0))
            # Whoever reads may stop while we wait, and no one would: so look again soon.
            events = poller.poll(poll_ms(left_s if leads else min(left_s, SENDER_BACKSTOP_S)))
            if leads and events and events[0][1] & ~select.POLLOUT:
                self._read()
        finally:
            if leads:
                self._turn.give()
        return left_s > 0

    def _give_up(self, attempts: Sequence[Attempt]) -> None:
        """The time is over for calls of which only a part could be sent."""
        for attempt in attempts:
            attempt.expire()
        self._lose("the server took in nothing more of what was sent")

    def _lose(self, why: str) -> None:
        with self._lock:
            self._settle(self._protocol.lose(why))
        self._shut_down()
        self._turn.wake_done()

    def _settle(self, answers: list[Answer]) -> None:
        """Answers to calls for which no one waits any more are dropped."""
        for answer in answers:
            attempt = self._calls.pop(answer.id, None)
            if attempt is not None:
                attempt.settle(answer)

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _lost(attempt: Attempt) -> bool:
    return attempt.answer is not None and isinstance(attempt.answer.error, ConnectionLost)


def poll_ms(left_s: float) -> int | None:
    """Seconds as `poll` takes them: whole milliseconds, not rounded down; None is for ever."""
    if left_s == math.inf:
        return None
    return min(math.ceil(max(left_s, 0.0) * 1000), MAX_POLL_MS)
