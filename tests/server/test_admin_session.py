"""One connection to the admin socket: who is let in, and how much may be said."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faircall.server.admin import session as admin_session
from faircall.server.admin.admin import Admin, open_admin_socket
from faircall.server.admin.session import MAX_MESSAGE_BYTES
from faircall.server.port import Port
from faircall.shm.states import Phase


def request(method: str, id: object = 1, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "id": id, **members}


def serve(port: Port, path: Path, session: Callable[[Path], Any]) -> Any:
    """What the coroutine `session(path)` returns, while an admin listens at `path`."""

    async def run() -> Any:
        sock, owned = open_admin_socket(str(path))
        served = asyncio.create_task(Admin([port], sock).serve())
        try:
            return await session(path)
        finally:
            port.shared.phase.set(Phase.STOPPED, 0)
            await served
            owned.remove()

    return asyncio.run(run())


async def exchange(path: Path, sent: bytes) -> list[Any]:
    """The answers to `sent`, after which the client says that it has said all."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(sent)
    writer.write_eof()
    answers = (await reader.read()).splitlines()
    writer.close()
    return [json.loads(answer) for answer in answers]


async def first_answer(path: Path, sent: bytes) -> Any:
    """The answer to `sent` of a client that goes on to listen."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(sent)
    answer = await reader.readline()
    writer.close()
    return json.loads(answer)


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def test_a_session_answers_line_by_line_until_the_client_ends(port: Port, tmp_path: Path) -> None:
    sent = line(request("faircall.ping", 1)) + b"\n" + line(request("faircall.ping", 2))

    async def session(path: Path) -> list[Any]:
        return await exchange(path, sent)

    assert serve(port, tmp_path / "a.sock", session) == [
        {"jsonrpc": "2.0", "id": 1, "result": "pong"},
        {"jsonrpc": "2.0", "id": 2, "result": "pong"},
    ]


def test_a_message_without_end_is_refused_and_the_session_closed(
    port: Port, tmp_path: Path
) -> None:
    async def session(path: Path) -> Any:
        return await first_answer(path, b"[" * (2 * MAX_MESSAGE_BYTES + 1))

    answer = serve(port, tmp_path / "a.sock", session)
    assert answer["error"]["code"] == -32054


def test_strangers_are_told_so_and_closed(
    port: Port, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = os.geteuid() + 1000
    monkeypatch.setattr(admin_session, "peer_uid", lambda sock: stranger)

    async def session(path: Path) -> Any:
        return await first_answer(path, line(request("faircall.stats")))

    answer = serve(port, tmp_path / "a.sock", session)
    assert answer["error"]["code"] == -32056
    assert "result" not in answer
    assert "admin client refused" in caplog.text


def test_the_kernel_says_who_the_peer_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert admin_session.peer_uid(ours) == os.geteuid()


def test_sessions_beyond_the_limit_are_closed_at_once(
    port: Port, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircall.server.admin.admin.MAX_SESSIONS", 1)

    async def session(path: Path) -> tuple[bytes, bytes]:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(line(request("faircall.ping")))
        first = await reader.readline()  # now it is being served
        second_reader, second_writer = await asyncio.open_unix_connection(path)
        second = await second_reader.read()
        writer.close()
        second_writer.close()
        return first, second

    first, second = serve(port, tmp_path / "a.sock", session)
    assert (b"pong" in first, second) == (True, b"")
