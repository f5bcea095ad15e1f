"""What asks a running daemon by its admin socket: one connection, one call."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Mapping
from typing import Any

import orjson

from ...workers.errors import FORBIDDEN

TIMEOUT_S = 10.0
RELOAD_TIMEOUT_S = 90.0  # longer than the daemon's own patience with its processes
MAX_ANSWER_BYTES = 64 << 20
_CHUNK_BYTES = 64 << 10


class AdminError(OSError):
    """The daemon has answered, with an error; `strerror` is its message."""


def fetch_stats(path: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Everything that the daemon at `path` has counted; see `call_admin`."""
    counted: dict[str, Any] = call_admin(path, "faircall.stats", timeout_s)
    return counted


def refresh_call_queue(path: str) -> dict[str, Any]:
    """Have the daemon at `path` read its settings again; what that changed. See `call_admin`."""
    changed: dict[str, Any] = call_admin(path, "faircall.refresh_call_queue", RELOAD_TIMEOUT_S)
    return changed


def reload_workers(path: str, timeout_s: float) -> dict[str, Any]:
    """Have every handler of the daemon at `path` replaced; how many that were. See `call_admin`.

    TimeoutError: after `timeout_s` the daemon still is at it, and goes on.
    """
    done: dict[str, Any] = call_admin(path, "faircall.reload_workers", timeout_s)
    return done


def call_admin(
    path: str,
    method: str,
    timeout_s: float = TIMEOUT_S,
    params: Mapping[str, Any] | None = None,
) -> Any:
    """The result of `method` of the daemon whose admin socket is `path`.

    AdminError: it refuses. OSError: nobody answers (within `timeout_s` seconds for each step), or
    not with a result; PermissionError: the daemon is another user's.
    """
    request: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "id": 1}
    if params is not None:
        request["params"] = dict(params)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout_s)
        try:
            sock.connect(path)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(orjson.dumps(request) + b"\n")
            line = _read_line(sock)  # also of who refused us before we said anything
        except TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
    return _result(line)


def _read_line(sock: socket.socket) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        part = sock.recv(_CHUNK_BYTES)
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
        line += part
        if len(line) > MAX_ANSWER_BYTES:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    return bytes(line)


def _result(line: bytes) -> Any:
    try:
        answer = orjson.loads(line)
        error = answer.get("error")
    except (orjson.JSONDecodeError, AttributeError):
        raise OSError(errno.EPROTO, "it does not speak JSON-RPC") from None
    if error is None:
        return answer.get("result")
    if error.get("code") == FORBIDDEN:
        raise PermissionError(errno.EACCES, str(error.get("message")))
    raise AdminError(errno.EPROTO, str(error.get("message")))
