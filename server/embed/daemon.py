"""The daemon of a program that embeds a server: what its fresh interpreter does.

It is told what to serve through its *line*, a SOCK_SEQPACKET pair, by one JSON message, and answers
with one: {"ready": [ADDRESS, ...], "admin": PATH} or {"failed": TEXT}. Later the host may send
connections (`pool`). The line's end, or the host's, ends the daemon at once. The end of the line
would not do alone: a copy of the host's descriptor may live on in a process that the host has
forked. The host is watched as a process (pidfd), not as the parent of a thread (PR_SET_PDEATHSIG
tells of the end of the *thread* that started us).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..settings.declaration import ConfigError
from ..settings.load import Source
from ..supervisor.blas import limit_blas_threads

if TYPE_CHECKING:
    from ..config import Settings
    from ..supervisor.supervisor import Supervisor

CONNECTION = b"c"  # the message that comes with the descriptor of a connection
MOST_BYTES = 1 << 17  # of a message


def main(line_fd: int) -> int:
    """Serve until the host says so, or is gone; the exit status of `faircall serve`."""
    os.set_inheritable(line_fd, False)
    line = socket.socket(fileno=line_fd)
    told: dict[str, Any] = json.loads(line.recv(MOST_BYTES))
    try:
        host = os.pidfd_open(told["host"])
    except ProcessLookupError:
        return 0
    if os.getppid() != told["host"]:
        return 0  # it was gone before, and the number is another's
    return _serve(told, line, host)


def _serve(told: dict[str, Any], line: socket.socket, host: int) -> int:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("FAIRCALL_")}
    flags = {key: (value, place) for key, (value, place) in told["flags"].items()}
    source = Source(flags, environ, Path(told["config"]) if told["config"] else None)
    try:
        settings = source.read()
    except ConfigError as error:
        _say(line, {"failed": str(error)})
        return 2
    limit_blas_threads(settings.handlers.blas_threads)  # before anything imports numpy
    from ..supervisor.serve import serve

    failures = _Failures()
    logging.getLogger("faircall.supervisor").addHandler(failures)
    tied = _Tied(line, host, told["connections"])
    status = serve(
        _without_sockets(settings) if told["connections"] else settings,
        told["target"],
        on_ready=lambda found: _say(line, {"ready": found, "admin": settings.admin.socket}),
        source=None if told["connections"] else source,
        prepare=tied.attach,
    )
    _say(line, {"failed": failures.text or f"the server ended with status {status}"})
    return status


def _without_sockets(settings: Settings) -> Settings:
    """The same without an address: connections come from the host."""
    ports = {number: replace(port, addresses=()) for number, port in settings.ports.items()}
    return replace(settings, ports=ports)


def _say(line: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # the host is gone, or does not listen any more
        line.send(json.dumps(message).encode()[:MOST_BYTES], socket.MSG_NOSIGNAL)


class _Failures(logging.Handler):
    """Keeps why the server could not start."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == "cannot start" and isinstance(record.args, dict):
            self.text = self.text or str(record.args.get("reason", ""))


class _Tied:
    """The supervisor's ear for its host."""

    def __init__(self, line: socket.socket, host: int, connections: bool) -> None:
        self._line, self._host, self._connections = line, host, connections
        self._supervisor: Supervisor | None = None
        line.setblocking(False)

    def attach(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        supervisor.host.watch(self._line.fileno(), self._hear)
        supervisor.host.watch(self._host, supervisor.host.gone)

    def _hear(self) -> None:
        assert self._supervisor is not None
        try:
            message, fds, _, _ = socket.recv_fds(self._line, 16, 1)
        except BlockingIOError:
            return
        except OSError:
            message, fds = b"", []
        for fd in fds:
            with socket.socket(fileno=fd) as connection:
                if self._connections:
                    self._supervisor.host.hand_over(connection)
        if not message:
            self._supervisor.host.gone()
