"""The host's side of an embedded server: it starts the daemon, hears of it, and ends it.

Nothing here starts a thread, touches a signal handler, an event loop or a standard stream of the
host, and nothing depends on which thread calls. What the daemon and the functions of the service
print goes to the standard error of the host, as with any child process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STDERR: Final = 2
MOST_BYTES: Final = 1 << 17  # of a message: the kernel's limit is higher
DRAIN_S: Final = 1.0  # what calls in flight have when the server is to stop
STOP_S: Final = 1.3  # from then on nobody is waited for
KILL_S: Final = 1.7
_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]);"
    "from faircall.server.embed.daemon import main; sys.exit(main(int(sys.argv[1])))"
)


class StartError(RuntimeError):
    """The server could not start; the message is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a program wants served. `flags`: setting to (value, how the program said it).

    `connections`: it will send some, and the daemon is to have no socket.
    """

    target: str
    flags: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    config: str = ""
    connections: bool = False

    def message(self) -> bytes:
        """For the daemon; ValueError if a setting is nothing that a file could hold."""
        told = {
            "target": self.target,
            "flags": self.flags,
            "config": self.config,
            "connections": self.connections,
            "host": os.getpid(),
        }
        try:
            text = json.dumps(told).encode()
        except TypeError as error:
            raise ValueError(
                f"a setting is text, a number, true or false, or a list: {error}"
            ) from None
        if len(text) > MOST_BYTES:
            raise ValueError(f"the settings take {len(text)} bytes: put them into a file (config=)")
        return text


class Daemon:
    """One daemon from its start to its end; `addresses` and `admin` are known once it is ready."""

    def __init__(self, wish: Wish) -> None:
        self.target = wish.target
        self.addresses: list[str] = []
        self.admin = ""
        message = wish.message()
        self.line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            try:
                self._process = _interpreter(far, wish.target)
            except BaseException:
                self.line.close()
                raise
        self.pid, self._host = self._process.pid, os.getpid()
        # Whoever forgets it, or ends without a word, must not leave it behind.
        self._last = weakref.finalize(self, _let_go, self._process, self.line, os.getpid())
        self._send(message)

    @property
    def _is_ours(self) -> bool:
        """Not in a copy of the host: that must not end what the host still uses."""
        return os.getpid() == self._host

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._last.alive and self._process.poll() is None

    def wait_ready(self) -> None:
        """Until it serves; StartError."""
        try:
            self._take(self.line.recv(MOST_BYTES))
        except BaseException:
            self.kill()
            raise

    async def wait_ready_async(self) -> None:
        """The same for an event loop."""
        import asyncio

        self.line.setblocking(False)
        try:
            self._take(await asyncio.get_running_loop().sock_recv(self.line, MOST_BYTES))
        except BaseException:
            self.kill()
            raise

    def _take(self, message: bytes) -> None:
        """Its only message."""
        told = json.loads(message) if message else {}
        if "ready" in told:
            self.addresses, self.admin = told["ready"], told["admin"]
            return
        why = told.get("failed") or f"its process ended with status {self._process.wait()}"
        raise StartError(f"{self.target} cannot be served: {why}")

    def connect(self) -> socket.socket:
        """A connection to one of its readers, through the line; OSError if it is gone."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with far:
            try:
                rights = [
                    (socket.SOL_SOCKET, socket.SCM_RIGHTS, far.fileno().to_bytes(4, sys.byteorder))
                ]
                self.line.sendmsg([b"c"], rights, socket.MSG_NOSIGNAL)
            except BaseException:
                near.close()
                raise
        return near

    # -- the end -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """End it: calls in flight have a second, and after two it is gone. May be repeated."""
        if self._last.alive and self._is_ours:
            for step, until_s in self._steps():
                step()
                if self._has_ended_by(until_s):
                    break
        self.kill()

    async def stop_async(self) -> None:
        """The same for an event loop, which goes on meanwhile."""
        import asyncio

        if self._last.alive and self._is_ours:
            for step, until_s in self._steps():
                step()
                while not self._has_ended_by(0) and time.monotonic() < until_s:
                    await asyncio.sleep(0.01)
        self.kill()

    def _steps(self) -> Iterator[tuple[Callable[[], None], float]]:
        """What is done one after the other, and until when it may take effect."""
        now_s = time.monotonic()
        yield self._drain, now_s + STOP_S
        yield self.let_go, now_s + KILL_S

    def _has_ended_by(self, until_s: float) -> bool:
        """Whether its end of the line is closed, which is when its process ends."""
        poll = select.poll()
        poll.register(self.line, select.POLLIN)
        while True:
            left_ms = max(0.0, until_s - time.monotonic()) * 1000
            if not poll.poll(left_ms):
                return False
            with contextlib.suppress(BlockingIOError):
                if not self.line.recv(MOST_BYTES):
                    return True

    def _drain(self) -> None:
        """No new calls, and those in flight are finished."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def let_go(self) -> None:
        """It ends at once, calls in flight or not."""
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """It is no more when this returns, however it was."""
        self._last()
        if self.admin and (self._process.returncode or 0) < 0:  # it was killed, and left that
            Path(self.admin).unlink(missing_ok=True)

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended already: `wait_ready` tells
            self.line.send(message, socket.MSG_NOSIGNAL)


def _interpreter(far: socket.socket, target: str) -> subprocess.Popen[bytes]:
    """A fresh one, in a session of its own: a terminal's Ctrl-C is the host's alone."""
    path = [entry or os.getcwd() for entry in sys.path]
    errors = STDERR if _is_open(STDERR) else subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, str(far.fileno()), json.dumps(path), target],
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        pass_fds=[far.fileno()],
        start_new_session=True,
    )


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _let_go(process: subprocess.Popen[bytes], line: socket.socket, host: int) -> None:
    """The last step: the process is killed if it is there still, waited for, the line closed."""
    if os.getpid() != host:
        line.close()  # a copy that was forked: it is not ours to end
        return
    if process.poll() is None:
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_WR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_S - STOP_S)
    process.kill()
    process.wait()
    line.close()
