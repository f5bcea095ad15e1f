"""The admin process's line to the supervisor, whose end the test has."""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from faircall.server.admin import link
from faircall.server.admin.link import SupervisorLink
from faircall.workers.errors import RpcError

Scene = Callable[[SupervisorLink, socket.socket], Awaitable[None]]


def play(scene: Scene) -> list[Any]:
    """What the link was told of settings."""
    adopted: list[Any] = []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def run() -> None:
        line = SupervisorLink(theirs, adopted.append)
        line.listen()
        await asyncio.wait_for(scene(line, ours), 30)

    with ours, theirs:
        asyncio.run(run())
    return adopted


async def _asked(line: SupervisorLink, ours: socket.socket) -> tuple[asyncio.Task[Any], bytes]:
    task = asyncio.create_task(line.refresh())
    await asyncio.sleep(0)
    return task, ours.recv(100)


def test_an_answer_goes_to_who_asked() -> None:
    async def scene(line: SupervisorLink, ours: socket.socket) -> None:
        first, said = await _asked(line, ours)
        second, again = await _asked(line, ours)
        assert (said, again) == (b"refresh 1", b"refresh 2")
        ours.send(b"settings " + pickle.dumps("new"))
        ours.send(b'refreshed 2 {"version":5}')
        ours.send(b'refreshed 1 {"error":"x:1: wrong"}')
        assert await second == {"version": 5}
        with pytest.raises(RpcError, match="x:1: wrong"):
            await first

    assert play(scene) == ["new"]


def test_a_supervisor_that_does_not_answer_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.001)

    async def scene(line: SupervisorLink, ours: socket.socket) -> None:
        with pytest.raises(RpcError, match="has not answered"):
            await line.refresh()
        ours.send(b"refreshed 1 {}")  # too late: for nobody

    play(scene)


def test_the_end_of_the_line_is_the_last_word() -> None:
    async def scene(line: SupervisorLink, ours: socket.socket) -> None:
        ours.shutdown(socket.SHUT_WR)
        await line.ended.wait()

    play(scene)
