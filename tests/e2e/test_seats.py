"""Handlers in calls of unknown length, and one that is kept for brief calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..daemon import PROBE, Daemon, serving, until
from ..raw import Raw, request
from .gates import gates, wait_for_calls

pytestmark = pytest.mark.slow

LONG_MS = 500  # `echo` takes none, even where it is interrupted


def test_long_calls_leave_a_handler_to_brief_ones(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(f"[ipc]\ncallqueue.long-call-ms = {LONG_MS}\n")
    flags = ("--config", str(tmp_path / "x.toml"), "--handlers", "2", "--trust-loopback")
    held = gates(tmp_path, 3)
    with (
        serving(tmp_path / "server", PROBE, *flags) as daemon,
        Raw(daemon.tcp) as heavy,
        Raw(daemon.tcp) as light,
    ):
        heavy.send(request("hold", held[0].path, id="first"))
        wait_for_calls(held[:1])
        # By its age: from its arrival on. How long it runs counts from when a handler began it.
        until(lambda: any(handler["age_ms"] > 2 * LONG_MS for handler in running(daemon)))
        held[0].open("")
        assert heavy.receive()["id"] == "first", "how long the method takes is known"
        assert light.call("echo", 0) == 0
        heavy.send(*[request("hold", gate.path, id=n) for n, gate in enumerate(held[1:])])
        held[1].wait_for_call()
        for number in range(20):
            assert light.call("echo", number) == number
        assert daemon.stats()["ports"][0]["queue"]["waiting"] == 1
        assert [handler["method"] for handler in running(daemon)] == ["hold"]
        held[1].open("")
        held[2].wait_for_call()
        held[2].open("")
        assert sorted(heavy.receive()["id"] for _ in held[1:]) == [0, 1]


def running(daemon: Daemon) -> list[dict[str, Any]]:
    """The handlers that run a call."""
    handlers = daemon.stats()["ports"][0]["handlers"]
    return [handler for handler in handlers if handler.get("method")]
