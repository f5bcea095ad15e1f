"""The connections of one synchronous client.

All that are *active* lead to the address in use. When the client moves on to the next address
they *retire*: nothing more is sent through them, and each is closed when its last call is
answered.

Two locks: `_lock` guards the fields and is held for moments; `_connecting` is held while a
connection is made, and taken first. Who must wait for it shares what became of it.
"""

from __future__ import annotations

import threading
import time

from .connect import open_connection
from .connection import Connection
from .errors import RpcClientError, local_deadline
from .options import Options
from .places import Places
from .request import Request
from .turn import lock_s


class Pool:
    """At most `options.connections` active ones, made when all there are have calls in flight."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._connecting = threading.Lock()
        self._places = Places(options.addresses)
        self._active: list[Connection] = []
        self._retired: list[Connection] = []
        self._closed = False

    def take(self, request: Request, until: float) -> Connection:
        """The connection with the fewest calls in flight, for `request`, by `until`.

        ConnectionFailed, or the RemoteError by which the server refuses us: the next call is then
        made at the next address. DeadlineExceeded while others connect. RuntimeError if closed.
        """
        since = time.monotonic()
        found = self._least_busy()
        if found is not None and not self._may_add(found):
            return found
        if not self._connecting.acquire(timeout=lock_s(0.0 if found else until - since)):
            if found is not None:
                return found
            raise local_deadline(request.method, str(self._places), request.limit_s)
        try:
            return self._add(since, until)
        finally:
            self._connecting.release()

    def move_on(self, connection: Connection) -> None:
        """The server at its other end serves no more: the next call goes to the next address."""
        with self._lock:
            if connection in self._active:
                self._retired += self._active
                self._active = []
                self._places.move_on(self._places.epoch)

    def close(self) -> None:
        """Calls under way fail with ConnectionLost, and `take` raises RuntimeError."""
        with self._lock:
            self._closed = True
            connections = self._active + self._retired
            self._active, self._retired = [], []
        for connection in connections:
            connection.close("closed by this client")

    def after_fork(self) -> None:
        """In the child: the locks may be held by threads that are not here."""
        self._lock, self._connecting = threading.Lock(), threading.Lock()
        connections = self._active + self._retired
        self._active, self._retired = [], []
        for connection in connections:
            connection.abandon()

    def _least_busy(self) -> Connection | None:
        """Of those that live. Those that have ended are closed."""
        with self._lock:
            self._check_open()
            active = sorted(self._active, key=_in_flight)
        if self._retired:
            self._close_idle()
        for connection in active:
            if connection.alive():
                return connection
            self._drop(connection)
        return None

    def _may_add(self, least_busy: Connection) -> bool:
        return self._places.may_add(
            least_busy.in_flight, len(self._active), self._options.connections, time.monotonic()
        )

    def _add(self, since: float, until: float) -> Connection:
        """One more connection, unless another thread has made one, or failed, since `since`."""
        found = self._least_busy()
        if found is not None and not self._may_add(found):
            return found
        failure = self._places.failure(since)
        if failure is not None:
            raise failure
        with self._lock:
            epoch, address = self._places.epoch, self._places.address
        try:
            connection = open_connection(self._options, address, until - time.monotonic())
        except RpcClientError as error:
            with self._lock:
                self._places.fail(error, epoch, time.monotonic(), move=found is None)
            if found is None:
                raise
            return found
        self._keep(connection, epoch)
        return connection

    def _keep(self, connection: Connection, epoch: int) -> None:
        try:
            with self._lock:
                self._check_open()
                fresh = epoch == self._places.epoch
                (self._active if fresh else self._retired).append(connection)
        except RuntimeError:
            connection.close("closed by this client")
            raise

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the client of {self._places} has been closed")

    def _drop(self, connection: Connection) -> None:
        with self._lock:
            if connection in self._active:
                self._active.remove(connection)
        connection.close("the connection had ended")

    def _close_idle(self) -> None:
        with self._lock:
            idle = [connection for connection in self._retired if not connection.in_flight]
            self._retired = [c for c in self._retired if c not in idle]
        for connection in idle:
            connection.close("another server is used now")


def _in_flight(connection: Connection) -> int:
    return connection.in_flight
