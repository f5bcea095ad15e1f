"""A real server for the demonstration: `faircall serve` in a process and a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..admin.client import fetch_stats, refresh_call_queue

SERVICE = "faircall.workers.example:service"
START_S = 30.0  # for importing, forking and the start hooks
STOP_S = 10.0
ANSWER_S = 30.0  # beside a load that leaves no processor free
PROGRAM = ("-m", "faircall")
LOOK_AGAIN_S = 0.05


class NotServing(Exception):
    """The server did not start; the message is what it logged."""


class DemoServer:
    """A running server that listens at `address`, (host, TCP port); `pid` is its supervisor's,
    `log` the file of its events."""

    def __init__(self, address: tuple[str, int], admin_socket: str, pid: int, log: Path) -> None:
        self.address, self.pid, self.log = address, pid, log
        self._admin_socket = admin_socket

    def reload(self) -> None:
        """Have it read its settings again; returns when they are in force. OSError."""
        refresh_call_queue(self._admin_socket)

    def stats(self) -> Mapping[str, Any]:
        """What it counts for its only port; OSError."""
        port: Mapping[str, Any] = fetch_stats(self._admin_socket, ANSWER_S)["ports"][0]
        return port

    def alarms(self) -> list[dict[str, Any]]:
        """Those that are active; OSError."""
        alarms: list[dict[str, Any]] = fetch_stats(self._admin_socket, ANSWER_S)["alarms"]
        return alarms


@contextlib.contextmanager
def running_server(
    handlers: int,
    settings: Mapping[str, str],
    service: str = SERVICE,
    config: Path | None = None,
    outer: Mapping[str, str] = os.environ,
    program: Sequence[str] = PROGRAM,
) -> Iterator[DemoServer]:
    """A server of `service` with these settings (key to value), and those of the file `config`,
    while the block runs, in the environment `outer`; `program` is what Python runs. NotServing."""
    with tempfile.TemporaryDirectory(prefix="faircall-demo-") as folder:
        admin_socket, log = f"{folder}/admin.sock", Path(folder) / "log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                command(
                    handlers, {"admin.socket": admin_socket, **settings}, service, config, program
                ),
                env=environment(outer),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        try:
            yield DemoServer(_address_when_ready(process, log), admin_socket, process.pid, log)
        finally:
            _stop(process)


def command(
    handlers: int,
    settings: Mapping[str, str],
    service: str = SERVICE,
    config: Path | None = None,
    program: Sequence[str] = PROGRAM,
) -> Sequence[str]:
    """The command line: loopback peers are trusted, so that one process can be two users."""
    words = [*program, "serve", service, "--trust-loopback", "--handlers", str(handlers)]
    words += ["--bind", "tcp://127.0.0.1:0", "--log-level", "info", "--log-format", "json"]
    if config:
        words += ["--config", str(config)]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    return [sys.executable, *words]


def environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Without the settings of the user's own servers."""
    return {name: value for name, value in outer.items() if not name.startswith("FAIRCALL_")}


def _address_when_ready(process: subprocess.Popen[bytes], log: Path) -> tuple[str, int]:
    """Where it listens: the kernel chose the port, and the log tells it once all is ready."""
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        for event in events_of(log.read_text()):
            if event.get("event") == "ready":
                host, _, port = event["address"].removeprefix("tcp://").rpartition(":")
                return host, int(port)
        time.sleep(LOOK_AGAIN_S)
    raise NotServing(why_not(log.read_text()))


def events_of(log: str) -> Iterator[dict[str, Any]]:
    """The events in the log, which is one JSON object a line; what is no whole one is left out."""
    for line in log.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            yield json.loads(line)


def why_not(log: str) -> str:
    """Why the server did not start, by its own account."""
    reasons = [event["reason"] for event in events_of(log) if "reason" in event]
    return str(reasons[-1]) if reasons else log.strip() or "it did not get ready"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does; which a user's own Ctrl-C has done already."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
