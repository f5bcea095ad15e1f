"""How soon a process that wakes has a processor: the kernel is told which ones may interrupt whom.

A short time slice is for processes that only ever need the processor for a moment.

Handlers keep every core busy; a reader that wakes beside them would wait until one has used up its
slice, 3 ms and more. Since Linux 6.12 a task may ask for a shorter slice of its own (EEVDF takes
`sched_runtime` of an ordinary task as that), and one with a short slice is let in at once: measured
with 2 handlers of 1 ms calls on 2 cores, a light caller's p99 fell from 25-33 ms to 6-8 ms. It gets
no larger share of the processor. Elsewhere nothing happens.

The other way round, handlers ask for a slice that is longer than that of all others, clients on the
same machine among them (0.7 to 2.8 ms, by the number of processors): these are let in at once then.

A batch process (SCHED_BATCH) interrupts nobody when it wakes. That is for handlers, which a reader
wakes while it has more calls to pass on: one that takes the reader's processor for that makes all
others wait.
"""

from __future__ import annotations

import ctypes
import os

_SYSCALLS = {"x86_64": 314, "aarch64": 274}  # sched_setattr


class _SchedAttr(ctypes.Structure):
    """`struct sched_attr`, version 0; times in ns."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def be_batch() -> bool:
    """Interrupt nobody from now on, as children will not; whether the kernel took it."""
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # musl has no such call, and a sandbox may forbid it
        return False
    return True


def ask_for_slice(slice_us: int) -> bool:
    """Ask for slices of `slice_us` for this process (0: leave it); whether the kernel took it."""
    number = _SYSCALLS.get(os.uname().machine)
    if not slice_us or number is None:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SchedAttr(ctypes.sizeof(_SchedAttr), _policy(), 0, nice, 0, slice_us * 1000)
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(number, 0, ctypes.byref(attributes), 0) == 0)


def _policy() -> int:
    """Which is kept."""
    try:
        return os.sched_getscheduler(0)
    except OSError:  # musl again: then it is what nobody has changed
        return os.SCHED_OTHER
