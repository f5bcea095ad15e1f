"""Connections that keep a number of equal requests in flight each: far cheaper than `generator`.

A request is one line, and so is its answer; for every answer the connection sends the line again.
Nothing is decoded and nothing timed, so that one process can keep a server busy.
"""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Callable

from .generator import CHUNK_BYTES, CONNECT_S, Address, hello

POLL_MS = 20


class Pump:
    """`connections` callers (user-0, user-1, ...) with `depth` requests in flight each."""

    def __init__(self, address: Address, line: bytes, connections: int, depth: int = 1) -> None:
        self._line, self._block = line, line * depth
        self.answered = self.refused = 0
        self._poll = select.epoll()
        self._socks: dict[int, socket.socket] = {}
        self._unsent: dict[int, bytes] = {}
        for number in range(connections):
            sock = _connected(address, f"user-{number}")
            self._socks[sock.fileno()] = sock
            self._unsent[sock.fileno()] = b""
            self._poll.register(sock, select.EPOLLIN)

    def run(self, seconds: float, look: Callable[[float], object] | None = None) -> float:
        """Answers per second; `look` is called at first and about every POLL_MS with the elapsed
        seconds.

        The first time what is in flight is sent; it stays there between runs. ConnectionError.
        """
        if self._block:
            for fd in self._socks:
                self._send(fd, self._block)
            self._block = b""
        began, before = time.monotonic(), self.answered
        looked = -math.inf
        while (elapsed := time.monotonic() - began) < seconds:
            for fd, _ in self._poll.poll(POLL_MS / 1000):
                self._receive(fd)
            if look is not None and elapsed - looked >= POLL_MS / 1000:
                look(elapsed)
                looked = elapsed
        return (self.answered - before) / (time.monotonic() - began)

    def close(self) -> None:
        self._poll.close()
        for sock in self._socks.values():
            sock.close()

    def _receive(self, fd: int) -> None:
        data = self._socks[fd].recv(CHUNK_BYTES)
        if not data:
            raise ConnectionError("the server closed a connection")
        answers = data.count(b"\n")
        self.answered += answers
        self.refused += data.count(b'"error"')
        if answers:
            self._send(fd, self._line * answers)

    def _send(self, fd: int, data: bytes) -> None:
        data = self._unsent[fd] + data
        try:
            sent = self._socks[fd].send(data)
        except BlockingIOError:
            sent = 0
        self._unsent[fd] = data[sent:]


def _connected(address: Address, user: str) -> socket.socket:
    sock = socket.create_connection(address, CONNECT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(hello(user))
    answer = sock.recv(CHUNK_BYTES)
    if b'"error"' in answer or not answer.endswith(b"\n"):
        raise ConnectionError(f"the name {user} was not believed: {answer.decode()}")
    sock.setblocking(False)
    return sock
