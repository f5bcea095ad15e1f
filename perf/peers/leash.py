"""Holds the server of a peer: `python -m faircall.perf.peers.leash WORD...`.

It ends, and with it every process that came of the command, when its standard input does: when
whoever measures has closed it, or has died. It ends likewise when the command itself does.
Processes that their own parents left are children of this one (PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

import psutil

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
FAILED = 1


def held(words: Sequence[str]) -> int:
    """Runs the command until either end of the leash lets go; the exit code."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C is for whoever measures
        signal.signal(number, signal.SIG_IGN)
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, restore_signals=True)
    ended = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([sys.stdin.fileno(), ended], [], [])
    finally:
        end_all()
    return FAILED if ended in ready else 0


def end_all() -> None:
    """Kills what has come of this process, again until there is nothing left of it."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


if __name__ == "__main__":
    sys.exit(held(sys.argv[1:]))
