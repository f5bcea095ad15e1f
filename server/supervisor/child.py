"""The first and the last steps of every child process, after the fork.

A child dies with its supervisor, owns no descriptor that is not its own (whoever held a copy of a
client's socket would keep the client waiting after its reader's death), and leaves signals to the
supervisor: it stops when the shared phase says so, or by SIGKILL. A `faulthandler` that the parent
has enabled is off: its descriptor is closed here, and the number soon a client's connection.

Where user code runs, "leaves" is not "ignores": an ignored signal stays ignored in every program
that is executed from there, and the user's `subprocess.Popen(...).terminate()` would do nothing. A
handler has a function that does nothing instead; it ends with an exec, and here with a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
from collections.abc import Callable, Iterable
from types import FrameType
from typing import NoReturn

STARTED_NO_MORE = 71  # exit status: the supervisor was gone before the child began
CRASHED = 70  # an exception that nobody expected; also `shm.mutex.BROKEN_SECTION`

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_LEFT_TO_SUPERVISOR = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LEFT_ALONE = 3  # standard input, output and error


def become_child(
    parent: int, name: str, keep: Iterable[int], *, runs_user_code: bool = False
) -> None:
    """Die with `parent`, be called `name`, leave signals alone, close all but `keep`."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(STARTED_NO_MORE)  # it died before the prctl
    libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)
    signal.set_wakeup_fd(-1)
    leave_signals(runs_user_code)
    faulthandler.disable()
    close_all_but(keep)


def leave_signals(runs_user_code: bool) -> None:
    """The terminal's and the operator's signals are for the supervisor, not for this process."""
    for number in _LEFT_TO_SUPERVISOR:
        signal.signal(number, _nothing if runs_user_code else signal.SIG_IGN)
        signal.siginterrupt(number, False)  # nor do they interrupt what the user's libraries do
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if runs_user_code:
        # Blocked meanwhile: a signal that reaches the new process early waits for its default.
        os.register_at_fork(
            before=_block, after_in_parent=_unblock, after_in_child=_end_by_signals_again
        )


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor above standard error that is not in `keep`."""
    kept = sorted({*range(_LEFT_ALONE), *keep})
    for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        if low + 1 < high:
            with contextlib.suppress(OSError):
                os.closerange(low + 1, high)


def run_child(body: Callable[[], int], crashed: Callable[[BaseException], int]) -> NoReturn:
    """Run `body` to its exit status, or to that which `crashed` chooses for what it raised.

    Nothing of the parent's cleaning up is run.
    """
    status = CRASHED
    try:
        status = body()
    except BaseException as error:
        status = crashed(error)
    finally:
        os._exit(status)


def _nothing(number: int, frame: FrameType | None) -> None:
    """What a signal does that is left to the supervisor."""


def _block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT_TO_SUPERVISOR)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _LEFT_TO_SUPERVISOR)


def _end_by_signals_again() -> None:
    """In a process that the user's code forks: signals end it, unless the code says otherwise."""
    for number in _LEFT_TO_SUPERVISOR:
        if signal.getsignal(number) is _nothing:
            signal.signal(number, signal.SIG_DFL)
    _unblock()
