"""Commands that are run at an alarm: without a shell, and without the admin loop's waiting.

What a hook reads lies in a file in memory before it starts, so no pipe can block us; that it has
ended its pidfd tells. It has a process group of its own, which is killed when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

log = logging.getLogger("faircall.admin")

MOST = 4


class Hooks:
    """Those that run, at most MOST: what comes while so many run is told in the log."""

    def __init__(self) -> None:
        self._running: dict[int, _Hook] = {}

    @property
    def running(self) -> int:
        return len(self._running)

    def run(self, words: Sequence[str], about: Mapping[str, Any], timeout_s: float) -> None:
        """Start the command `words` with `about` as its standard input; in a running loop."""
        if len(self._running) >= MOST:
            log.warning("alarm hook left out", {"hook": words[0], "running": len(self._running)})
            return
        try:
            hook = _Hook(words, about)
        except OSError as error:
            reason = error.strerror or str(error)
            log.warning("alarm hook failed", {"hook": words[0], "reason": reason})
            return
        self._running[hook.fd] = hook
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout_s, hook.kill)
        loop.add_reader(hook.fd, self._ended, hook, timer)

    def close(self) -> None:
        """Kill those that run."""
        for hook in self._running.values():
            hook.kill()
            asyncio.get_running_loop().remove_reader(hook.fd)
            hook.process.wait()
            os.close(hook.fd)
        self._running.clear()

    def _ended(self, hook: _Hook, timer: asyncio.TimerHandle) -> None:
        asyncio.get_running_loop().remove_reader(hook.fd)
        timer.cancel()
        del self._running[hook.fd]
        status = hook.process.wait()
        os.close(hook.fd)
        if hook.timed_out or status:
            reason = "its time was over" if hook.timed_out else f"exit code {status}"
            log.warning("alarm hook failed", {"hook": hook.name, "reason": reason})


class _Hook:
    """One that runs; OSError if it cannot be started."""

    def __init__(self, words: Sequence[str], about: Mapping[str, Any]) -> None:
        self.name, self.timed_out = words[0], False
        memory = os.memfd_create("faircall-alarm", os.MFD_CLOEXEC)
        try:
            os.write(memory, orjson.dumps(about) + b"\n")
            os.lseek(memory, 0, os.SEEK_SET)
            self.process = subprocess.Popen(
                list(words),
                stdin=memory,
                stdout=subprocess.DEVNULL,
                process_group=0,
            )
        finally:
            os.close(memory)
        self.fd = os.pidfd_open(self.process.pid)

    def kill(self) -> None:
        """Its whole group, however it takes it."""
        self.timed_out = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
