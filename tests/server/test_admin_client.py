"""Whatever is no result of a daemon is an OSError that says what it was."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from faircall.server.admin import client as admin_client
from faircall.server.admin.client import call_admin, fetch_stats

from ..fault.kill import start, wait_for


def answer_once(path: Path, answer: bytes) -> int:
    """A process that answers one connection with these bytes and closes; its pid."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        connection, _ = listener.accept()
        connection.recv(4096)
        connection.sendall(answer)

    pid = start(run)
    listener.close()
    return pid


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"", ConnectionResetError, "closed the connection"),
        (b"HTTP/1.1 400\r\n", OSError, "does not speak JSON-RPC"),
        (b"[1]\n", OSError, "does not speak JSON-RPC"),
        (b'{"error":{"code":-32056,"message":"Forbidden"}}\n', PermissionError, "Forbidden"),
        (b'{"error":{"code":-32601,"message":"Method not found"}}\n', OSError, "not found"),
    ],
)
def test_what_is_no_result_is_an_oserror(
    tmp_path: Path, answer: bytes, kind: type[OSError], message: str
) -> None:
    pid = answer_once(tmp_path / "a.sock", answer)
    with pytest.raises(kind, match=message):
        call_admin(str(tmp_path / "a.sock"), "faircall.ping")
    assert wait_for(pid) == 0


def test_why_a_daemon_refused_is_told_though_it_closed_before_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.sendall(b'{"error":{"code":-32056,"message":"Forbidden"}}\n')

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "a.sock"))
    listener.listen()
    pid = start(lambda: refuse(listener))
    listener.close()

    def dumps_late(request: object) -> bytes:  # which is after the connect
        assert wait_for(pid) == 0
        return orjson.dumps(request)

    late = SimpleNamespace(
        dumps=dumps_late, loads=orjson.loads, JSONDecodeError=orjson.JSONDecodeError
    )
    monkeypatch.setattr(admin_client, "orjson", late)
    with pytest.raises(PermissionError, match="Forbidden"):
        call_admin(str(tmp_path / "a.sock"), "faircall.ping")


def test_nobody_there_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fetch_stats(str(tmp_path / "a.sock"))
