"""Whether robust mutexes work here: tried once, before a server relies on them.

Under some emulations (qemu-user without robust lists, some sandboxes) nobody marks the mutex of a
dead owner, and the first death would stop the server for good. So a child takes one and dies, and
the parent must be told.
"""

from __future__ import annotations

import ctypes
import mmap
import os

from .mutex import LockBroken, RobustMutex

PATIENCE_S = 2.0  # the kernel marks it at once; a machine under load may take a while


class NoRobustMutexes(Exception):
    """Robust process-shared mutexes do not work on this machine; the message says what was seen."""


def check_robust_mutexes() -> None:
    """NoRobustMutexes unless a mutex whose owner died is handed on and can be used again."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    rebuilt: list[bool] = []
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    mutex = RobustMutex(address, "self-test", lambda: rebuilt.append(True), PATIENCE_S)
    try:
        mutex.initialise()
        _die_holding(mutex)
        for _ in range(2):  # the second time as if nothing had happened
            with mutex:
                pass
    except (OSError, LockBroken) as error:
        raise NoRobustMutexes(f"robust mutexes do not work here: {error}") from error
    if rebuilt != [True]:
        raise NoRobustMutexes("robust mutexes do not work here: a dead owner was not reported")


def _die_holding(mutex: RobustMutex) -> None:
    """A child takes `mutex` and ends."""
    child = os.fork()
    if child == 0:
        mutex.__enter__()
        os._exit(0)
    os.waitpid(child, 0)
