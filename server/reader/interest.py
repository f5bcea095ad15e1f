"""What epoll is asked for each connection of a reader: only for what the connection waits for."""

from __future__ import annotations

import select

from .connection import Connection

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
GONE = select.EPOLLHUP | select.EPOLLERR


class Interest:
    """`connection.interest` is what was asked last; 0: nothing, and it is not registered."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll

    def ask(self, connection: Connection) -> None:
        """After anything has changed. One that may not read, and has nothing to send, is left out:
        epoll would report its end again and again. But one whose calls are all taken, and that
        only waits for answers, is watched for its end: then nobody waits for them."""
        interest = WRITE if connection.unsent else 0
        if connection.lingering or not (connection.input_over or connection.stopped):
            interest |= READ
        elif connection.peer_ended and not (connection.queued or connection.stopped):
            interest |= select.EPOLLHUP
        if interest == connection.interest:
            return
        if not connection.interest:
            self._epoll.register(connection.fd, interest)
        elif not interest:
            self._epoll.unregister(connection.fd)
        else:
            self._epoll.modify(connection.fd, interest)
        connection.interest = interest

    def forget(self, connection: Connection) -> None:
        """Before it is closed: while the acceptor still has its copy, epoll would go on with it."""
        if connection.interest:
            self._epoll.unregister(connection.fd)
            connection.interest = 0
