"""As process 1 of a container the daemon is the parent of every orphan there, and buries them.

User code may start processes that start others; when the ones in between end, the kernel gives the
rest to process 1. Unless it waits for them they stay as zombies until no process can be made.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Container

log = logging.getLogger("faircall.supervisor")

INIT = 1


def bury_orphans(ours: Container[int]) -> int:
    """Wait for each dead child that is none of `ours`, which have who waits for them; how many.

    It stops at the first of ours, which the kernel shows again and again until it is waited for:
    so this is to be called again after that.
    """
    buried = 0
    with contextlib.suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in ours:
                break
            os.waitid(os.P_PID, found.si_pid, os.WEXITED | os.WNOHANG)
            buried += 1
    if buried:
        log.info("orphans buried", {"count": buried})
    return buried
