"""Clients of a reader under test, and the messages that they send."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest


class Client:
    """The client's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.setblocking(False)
        self.received = b""
        self.ended = False  # the server has said its last word
        self.reset = False

    def send(self, data: bytes) -> None:
        """All of it: the socket has room, or the server is gone."""
        while data:
            try:
                data = data[self.sock.send(data) :]
            except (BrokenPipeError, ConnectionResetError):
                self.ended = True
                return

    def try_send(self, data: bytes) -> int:
        """What the socket takes."""
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError):
            self.ended = True
            return 0

    def read(self) -> bytes:
        """Everything that has arrived so far, from the first byte on."""
        while not self.ended:
            try:
                data = self.sock.recv(1 << 20)
            except BlockingIOError:
                break
            except ConnectionResetError:
                self.ended = self.reset = True
                break
            self.ended = not data
            self.received += data
        return self.received

    def answers(self) -> list[Any]:
        """The lines that have arrived, decoded."""
        return [json.loads(line) for line in self.read().splitlines()]

    def bodies(self) -> list[bytes]:
        """The bodies of the HTTP answers that have arrived."""
        bodies, rest = [], self.read()
        while b"\r\n\r\n" in rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or 0)
            if len(rest) >= length:
                bodies.append(rest[:length])
            rest = rest[length:]
        return bodies

    def http_answers(self) -> list[Any]:
        """The same, decoded, but for those of notifications."""
        return [json.loads(body) for body in self.bodies() if body]

    def forget(self) -> None:
        """What has arrived was looked at."""
        self.read()
        self.received = b""

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.ended = True
        self.sock.close()


def rounds(complaint: str) -> Iterator[int]:
    """Many, and then a failure: what is waited for does not come."""
    yield from range(20_000)
    pytest.fail(complaint)


def call(method: str, params: Any = None, id: Any = None, **members: Any) -> bytes:
    """One request as a line; without `id` a notification."""
    request: dict[str, Any] = {"jsonrpc": "2.0", "method": method, **members}
    if params is not None:
        request["params"] = params
    if id is not None:
        request["id"] = id
    return json.dumps(request).encode() + b"\n"


def batch(*calls: bytes) -> bytes:
    """Several requests as one line."""
    return b"[" + b",".join(line.strip() for line in calls) + b"]\n"


def post(body: bytes, **headers: Any) -> bytes:
    """One HTTP request; `X_Faircall_User="anna"` is a header."""
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return (head + "".join(lines) + "\r\n").encode() + body


def frame(body: bytes) -> bytes:
    """One message with a Content-Length."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def reasons(answers: list[Any]) -> list[Any]:
    """Of each answer: its id, and "ok" or the reason of its error."""
    return [
        (each["id"], each["error"]["data"]["reason"] if "error" in each else "ok")
        for each in answers
    ]


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection: the client's, the server's."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        near = socket.create_connection(listener.getsockname())
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small pieces arrive at once
        far, _ = listener.accept()
    return near, far
