"""The connections of one synchronous client.

All that are *active* lead to the address in use. When the client moves on to the next address
they *retire*: nothing more is sent through them, and each is closed when its last call is
answered.

One thread at a time makes a connection. Others use meanwhile what there is; those for whom there
is nothing wait, and share it if none can be made.
"""

from __future__ import annotations

import threading
import time

from .address import Address
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
        self._changed = threading.Condition(threading.Lock())  # guards all that follows
        self._connecting = False
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
        while True:
            found = self._least_busy()
            with self._changed:
                if self._may_connect(found, since):
                    self._connecting = True
                    epoch, address = self._places.epoch, self._places.address
                    break
                if found is not None:
                    return found
                if self._connecting and not self._changed.wait(lock_s(until - time.monotonic())):
                    raise local_deadline(request.method, str(self._places), request.limit_s)
        return self._connect(found, epoch, address, until)

    def move_on(self, connection: Connection) -> None:
        """The server at its other end serves no more: the next call goes to the next address."""
        with self._changed:
            if connection in self._active:
                self._retired += self._active
                self._active = []
                self._places.move_on(self._places.epoch)

    def close(self) -> None:
        """Calls under way fail with ConnectionLost, and `take` raises RuntimeError."""
        with self._changed:
            self._closed = True
            connections = self._active + self._retired
            self._active, self._retired = [], []
            self._changed.notify_all()
        for connection in connections:
            connection.close("closed by this client")

    def after_fork(self) -> None:
        """In the child: the locks may be held by threads that are not here."""
        self._changed, self._connecting = threading.Condition(threading.Lock()), False
        connections = self._active + self._retired
        self._active, self._retired = [], []
        for connection in connections:
            connection.abandon()

    def _least_busy(self) -> Connection | None:
        """Of those that live. Those that have ended are closed."""
        with self._changed:
            self._check_open()
            active = sorted(self._active, key=_in_flight)
        if self._retired:
            self._close_idle()
        for connection in active:
            if connection.alive():
                return connection
            self._drop(connection)
        return None

    def _may_connect(self, found: Connection | None, since: float) -> bool:
        """Whether this thread is to make a connection, where `found` is the best there is.

        Raises why none could be made at `since` or later. Called with the lock.
        """
        self._check_open()
        if self._connecting:
            return False
        if found is not None:
            most, now = self._options.connections, time.monotonic()
            return self._places.may_add(found.in_flight, len(self._active), most, now)
        failure = self._places.failure(since)
        if failure is not None:
            raise failure
        return not self._active  # else another thread has made one since we looked

    def _connect(
        self, found: Connection | None, epoch: int, address: Address, until: float
    ) -> Connection:
        """A new connection, or else `found`; the error if there is neither."""
        try:
            connection = open_connection(self._options, address, until - time.monotonic())
            self._keep(connection, epoch)
            return connection
        except RpcClientError as error:
            with self._changed:
                self._places.fail(error, epoch, time.monotonic(), move=found is None)
            if found is None:
                raise
            return found
        finally:
            with self._changed:
                self._connecting = False
                self._changed.notify_all()

    def _keep(self, connection: Connection, epoch: int) -> None:
        try:
            with self._changed:
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
        with self._changed:
            if connection in self._active:
                self._active.remove(connection)
        connection.close("the connection had ended")

    def _close_idle(self) -> None:
        with self._changed:
            idle = [connection for connection in self._retired if not connection.in_flight]
            self._retired = [c for c in self._retired if c not in idle]
        for connection in idle:
            connection.close("another server is used now")


def _in_flight(connection: Connection) -> int:
    return connection.in_flight
