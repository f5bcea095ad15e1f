"""What a server takes of its machine, seen from outside: all processes of its tree, by psutil."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import psutil

LOOPBACK = "lo"
MB = 1e6
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Look:
    """`pss_mib`: memory, what processes share counted once. Of the others there is as much as since
    the processes (or the machine) started: `cpu_s`, `file_mb` read and written through files and
    pipes, and `loopback_mb` of all traffic inside the machine; the kernel does not count bytes of
    sockets by process."""

    pss_mib: float
    cpu_s: float
    file_mb: float
    loopback_mb: float


def look(supervisor: int) -> Look:
    """At the tree of processes below that one, and at itself. psutil.NoSuchProcess."""
    root = psutil.Process(supervisor)
    pss = chars = 0
    cpu_s = 0.0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
            times, files = process.cpu_times(), process.io_counters()
            cpu_s += times.user + times.system
            chars += files.read_chars + files.write_chars
            pss += process.memory_full_info().pss
    device = psutil.net_io_counters(pernic=True).get(LOOPBACK)
    moved = device.bytes_sent if device else 0  # each byte is received, too
    return Look(pss / MIB, cpu_s, chars / MB, moved / MB)
