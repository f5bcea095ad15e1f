"""A JSON-RPC server of a few lines, in a thread, which counts what it answers."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faircall.client.address import Address, parse_address


class Tiny:
    """`calls` by (user, method). Method `fail` is an error, `shed` -32005, `hangup` the end."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.lock = threading.Lock()

    def answer(self, message: dict[str, Any], user: str) -> bytes:
        with self.lock:
            self.calls[user, message["method"]] += 1
        codes = {"fail": -32000, "shed": -32005}
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if code := codes.get(message["method"]):
            answer["error"] = {"code": code, "message": "as asked"}
        else:
            answer["result"] = message["params"]
        return json.dumps(answer).encode()


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        tiny: Tiny = self.server.tiny  # type: ignore[attr-defined]
        http: bool = self.server.http  # type: ignore[attr-defined]
        user = ""
        with contextlib.suppress(ConnectionError):
            while line := self.rfile.readline():
                if http:
                    head = {}
                    while (field := self.rfile.readline().strip()) != b"":
                        name, _, value = field.decode().partition(": ")
                        head[name] = value
                    user, line = head.get("X-Faircall-User", ""), b""
                    line = self.rfile.read(int(head["Content-Length"]))
                message = json.loads(line)
                if message["method"] == "faircall.hello":
                    user = message["params"]["user"]
                    self.wfile.write(b'{"jsonrpc":"2.0","id":0,"result":{}}\n')
                    continue
                if message["method"] == "hangup":
                    return
                body = tiny.answer(message, user)
                if http:
                    self.wfile.write(
                        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                    )
                else:
                    self.wfile.write(body + b"\n")


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads, request_queue_size = True, 128


@contextlib.contextmanager
def tiny_server(scheme: str, folder: Path) -> Iterator[tuple[Tiny, Address]]:
    """`scheme` is that of an address: tcp, http, unix or http+unix."""
    unix = scheme.endswith("unix")
    server = _Unix(str(folder / "s"), Handler) if unix else _Tcp(("127.0.0.1", 0), Handler)
    tiny = Tiny()
    server.tiny, server.http = tiny, scheme.startswith("http")  # type: ignore[union-attr]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        where = f":{folder / 's'}" if unix else f"://127.0.0.1:{server.socket.getsockname()[1]}"
        yield tiny, parse_address(scheme + where)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
