"""The Python stack of a handler that hangs or crashes, for the log.

Each handler's place has a memfd. The process registers `faulthandler` on it: for SIGUSR2, which the
supervisor sends before it kills a handler that hangs, and for the signals of a crash. faulthandler
writes from the C signal handler, so a loop that never comes back to Python shows its stack, too.
"""

from __future__ import annotations

import faulthandler
import os
import signal

ASK = signal.SIGUSR2
MOST_BYTES = 16000  # of a stack: the innermost frames come first
OUR_OUTERMOST = " in run_handler"  # who called that is of no interest


class StackFile:
    """Made by the supervisor before the fork; written by the child, read by the supervisor."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("faircall-stack", os.MFD_CLOEXEC)

    def clear(self) -> None:
        """Forget what the last process wrote."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)

    def take(self) -> str:
        """What has been written, and forget it; "" if nothing was."""
        text = os.pread(self.fd, MOST_BYTES, 0).decode(errors="replace")
        self.clear()
        return without_supervisor(text.strip())

    def enable(self) -> None:
        """In the child: write the stack there when asked, and in a crash."""
        faulthandler.enable(self.fd)
        faulthandler.register(ASK, self.fd, all_threads=True, chain=False)

    def close(self) -> None:
        os.close(self.fd)


def without_supervisor(text: str) -> str:
    """`text` without the frames below the handler's own: those it got by the fork."""
    kept, ours = [], True
    for line in text.splitlines():
        ours = ours or not line.startswith("  File")
        if ours and OUR_OUTERMOST not in line:
            kept.append(line)
        else:
            ours = False
    return "\n".join(kept)
