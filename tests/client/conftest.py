"""A server in a thread, as honest or as bad as the test's script for it."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from .scripted import AsyncCaller, Caller, SyncCaller

TRANSPORTS = ["tcp", "unix", "http", "http+unix"]


class Peer:
    """The server's end of one connection. `number` counts the connections from 0.

    `gate` is shut until the test opens it, or is over.
    """

    def __init__(self, sock: socket.socket, number: int, http: bool, gate: threading.Event) -> None:
        self.number = number
        self.gate = gate
        self.headers: dict[str, str] = {}
        self._http = http
        self._socket = sock
        self._file: BinaryIO = sock.makefile("rb")

    def receive(self) -> Any:
        """The next message of the client; EOFError when it has closed."""
        text = self._http_body() if self._http else self._file.readline()
        if not text:
            raise EOFError
        return json.loads(text)

    def send(self, message: Any) -> None:
        """An answer in the framing of this server; None is an answer without one."""
        body = b"" if message is None else json.dumps(message).encode()
        if self._http:
            self.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        elif body:
            self.send_raw(body + b"\n")

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def shut_down(self) -> None:
        """Ends the connection; the script, wherever it is, sees that too."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _http_body(self) -> bytes:
        first = self._file.readline()
        for line in iter(self._file.readline, b"\r\n"):
            if not line:
                return b""
            name, _, value = line.decode().partition(": ")
            self.headers[name] = value.strip()
        assert not first or first.startswith(b"POST /rpc HTTP/1.1\r\n")
        return self._file.read(int(self.headers["Content-Length"])) if first else b""


Script = Callable[[Peer], None]


class FakeServer:
    """Runs `script` in a thread for each connection; `check` raises what went wrong in one."""

    def __init__(self, script: Script, kind: str, directory: Path) -> None:
        self._script = script
        self._http = kind.startswith("http")
        self.gate = threading.Event()
        self.ended = threading.Semaphore(0)  # released when a connection has been closed
        self._errors: list[Exception] = []
        self._peers: list[Peer] = []
        if kind.endswith("unix"):
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(directory / "s"))
            self.address = f"{kind}:{directory / 's'}"
        else:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.address = f"{kind}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def connections(self) -> int:
        """How many have been made."""
        return len(self._peers)

    def stop(self) -> None:
        self.gate.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for peer in self._peers:
            peer.shut_down()
        for thread in self._threads:
            thread.join()
        for error in self._errors:
            raise error

    def _accept(self) -> None:
        for number in itertools.count():
            try:
                sock = self._listener.accept()[0]
            except OSError:
                return
            self._peers.append(Peer(sock, number, self._http, self.gate))
            self._threads.append(threading.Thread(target=self._run, args=[self._peers[-1]]))
            self._threads[-1].start()

    def _run(self, peer: Peer) -> None:
        try:
            self._script(peer)
        except (EOFError, OSError, ValueError):
            pass  # the client has closed, or the test is over
        except Exception as error:
            self._errors.append(error)
        finally:
            peer.close()
            self.ended.release()


Serve = Callable[..., FakeServer]
Connect = Callable[..., Caller]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """`serve(script=..., kind="tcp")` starts a server, which is stopped after the test."""
    servers: list[FakeServer] = []

    def start(script: Script = answer_calls, kind: str = "tcp") -> FakeServer:
        directory = tmp_path / str(len(servers))
        directory.mkdir()
        servers.append(FakeServer(script, kind, directory))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(params=TRANSPORTS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each transport and framing in turn."""
    return str(request.param)


@pytest.fixture(params=[SyncCaller, AsyncCaller])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """`connect(addresses, **options)`: either client in turn, closed after the test."""
    callers: list[Caller] = []

    def start(addresses: Any, **options: Any) -> Caller:
        callers.append(request.param(addresses, **options))
        return callers[-1]

    yield start
    for caller in callers:
        caller.close()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address at which connections are refused, as long as the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{bound.getsockname()[1]}"


def answer_calls(peer: Peer) -> None:
    """What a good server does, one message after another."""
    while True:
        message = peer.receive()
        if isinstance(message, list):
            answers = [answer for answer in map(answer_one, message) if answer]
            peer.send(answers or None)
        else:
            peer.send(answer_one(message))


def answer_one(request: dict[str, Any]) -> dict[str, Any] | None:
    if "id" not in request:
        return None
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    params = request.get("params", [])
    match request["method"]:
        case "add":
            return {**answer, "result": params[0] + params[1]}
        case "request":
            return {**answer, "result": request}
        case "big":
            return {**answer, "result": "x" * params[0]}
        case "fail":
            return {**answer, "error": params[0]}
        case _:
            return {**answer, "error": {"code": -32601, "message": "Method not found"}}
