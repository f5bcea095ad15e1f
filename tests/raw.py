"""A connection to a server, byte by byte: for tests that a client would be too polite for."""

from __future__ import annotations

import itertools
import json
import socket
from typing import Any

FRAMINGS = ("lines", "lsp", "http")
PATIENCE_S = 60.0
HEAD = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def connect(address: str, timeout_s: float = PATIENCE_S) -> socket.socket:
    """A connected socket, by an address as a server tells it; OSError."""
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        place: Any = address.removeprefix("unix:")
    else:
        sock = socket.socket(socket.AF_INET)
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        place = (host, int(port))
    sock.settimeout(timeout_s)
    try:
        sock.connect(place)
    except OSError:
        sock.close()
        raise
    return sock


def framed(framing: str, message: object, headers: str = "") -> bytes:
    """A JSON value (or bytes, as they are) as it travels."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    if framing == "lines":
        return body + b"\n"
    head = HEAD + headers if framing == "http" else ""
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def request(method: str, *params: object, id: object = None, **members: object) -> dict[str, Any]:
    """A call; a notification without an id. `members` stand beside the params: meta."""
    call: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": list(params), **members}
    return call if id is None else call | {"id": id}


class Raw:
    """`send` does not wait, `receive` reads one message: an answer, or a list of them."""

    def __init__(
        self, address: str, framing: str = "lines", timeout_s: float = PATIENCE_S, headers: str = ""
    ) -> None:
        self.sock = connect(address, timeout_s)
        self.framing, self.headers = framing, headers
        self.status = 0  # of the last HTTP answer
        self._file = self.sock.makefile("rb")
        self._ids = itertools.count(1)

    def send(self, *messages: object) -> None:
        self.sock.sendall(b"".join(framed(self.framing, m, self.headers) for m in messages))

    def receive(self) -> Any:
        """None for an HTTP answer without a body; EOFError at the end of the connection."""
        body = self._line() if self.framing == "lines" else self._headed_body()
        return json.loads(body) if body else None

    def ask(self, method: str, *params: object, **members: object) -> Any:
        """One call: its answer, whole."""
        id = next(self._ids)
        self.send(request(method, *params, id=id, **members))
        answer = self.receive()
        assert answer["id"] == id, answer
        return answer

    def call(self, method: str, *params: object, **members: object) -> Any:
        """One call that has a result."""
        return self.ask(method, *params, **members)["result"]

    def code(self, method: str, *params: object, **members: object) -> int:
        """One call that has an error."""
        code: int = self.ask(method, *params, **members)["error"]["code"]
        return code

    def end_input(self) -> None:
        """Say that nothing more will be sent."""
        self.sock.shutdown(socket.SHUT_WR)

    def rest(self) -> list[Any]:
        """Everything that still comes, until the server closes."""
        messages = []
        try:
            while True:
                messages.append(self.receive())
        except EOFError:
            return messages

    def close(self) -> None:
        self._file.close()
        self.sock.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _line(self) -> bytes:
        line = self._file.readline()
        if not line:
            raise EOFError
        return line

    def _headed_body(self) -> bytes:
        length, first = 0, True
        for line in iter(self._file.readline, b"\r\n"):
            if not line:
                raise EOFError
            if first and self.framing == "http":
                self.status = int(line.split()[1])
            elif line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            first = False
        return self._file.read(length)
