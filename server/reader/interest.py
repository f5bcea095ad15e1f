"""What epoll is asked for each connection of a reader: only for what the connection waits for."""

from __future__ import annotations

import select

from .connection import Connection
from .sources import Sources

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
GONE = select.EPOLLHUP | select.EPOLLERR


class Interest:
    """`connection.interest` is what was asked last; 0: nothing, and it is not registered."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def ask(self, connection: Connection) -> None:
        """After anything has changed. One that is not read is still watched for its end: nobody
        waits for its answers then. A client that has only closed its sending half is no such one:
        epoll says EPOLLHUP when both halves are closed, or after a reset. (What waits for its turn
        is told by then; until it had it, its end would be reported again and again.)"""
        interest = WRITE | READ if connection.unsent else READ
        if (connection.input_over or connection.stopped) and not connection.lingering:
            interest &= ~READ
            if not connection.queued:
                interest |= select.EPOLLHUP
        moves = connection.patient != connection.among_patients
        if interest == connection.interest and not moves:
            return
        if moves or not interest:
            self.forget(connection)
        if not interest:
            return
        epoll = self._sources.patient if connection.patient else self._sources.prompt
        if connection.interest:
            epoll.modify(connection.fd, interest)
        else:
            epoll.register(connection.fd, interest)
            connection.among_patients = connection.patient
            self._sources.patients += connection.patient
        connection.interest = interest

    def forget(self, connection: Connection) -> None:
        """Before it is closed: while the acceptor still has its copy, epoll would go on with it."""
        if not connection.interest:
            return
        sources, among_patients = self._sources, connection.among_patients
        (sources.patient if among_patients else sources.prompt).unregister(connection.fd)
        sources.patients -= among_patients
        connection.interest = 0
        connection.among_patients = False
