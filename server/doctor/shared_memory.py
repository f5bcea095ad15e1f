"""What the processes share: /dev/shm and memfd, robust mutexes, the folder of the admin socket."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ...shm import mutex
from ...shm.layout import Layout
from ...shm.segment import SHM_FOLDER
from ...shm.selftest import NoRobustMutexes, check_robust_mutexes
from ..port import geometry_of
from .findings import Finding, Patient, fail, ok, warn

MIB = 1 << 20


def segments(patient: Patient) -> Iterator[Finding]:
    """Whether the segments of all ports fit into /dev/shm, or else into a memfd."""
    settings = patient.settings
    needed = sum(
        Layout(geometry_of(settings, ipc), mutex.abi()).total_bytes
        for ipc in settings.ports.values()
    )
    text = f"{needed / MIB:.0f} MiB for {len(settings.ports)} port(s)"
    try:
        found = os.statvfs(SHM_FOLDER)
        free = found.f_bavail * found.f_frsize
    except OSError:
        free = 0
    if free >= needed:
        yield ok("memory", f"{text}; {SHM_FOLDER} has {free / MIB:.0f} MiB free")
        return
    small = f"{SHM_FOLDER} has {free / MIB:.0f} MiB free, {text} are needed"
    try:
        os.close(os.memfd_create("faircall-doctor", os.MFD_CLOEXEC))
    except OSError as error:
        yield fail(
            "memory",
            f"{small}, and there is no memfd: {error.strerror}",
            "--shm-size for Docker, a memory emptyDir at /dev/shm in Kubernetes",
        )
    else:
        yield ok("memory", f"{small}: a memfd takes its place")


def mutexes(patient: Patient) -> Iterator[Finding]:
    try:
        check_robust_mutexes()
    except NoRobustMutexes as error:
        yield fail("mutexes", str(error), "not under qemu-user or such a sandbox")
    else:
        yield ok("mutexes", "one whose owner died is handed on")


def runtime_folder(patient: Patient) -> Iterator[Finding]:
    """Whether the admin socket can be made in a folder that is ours alone."""
    folder = Path(patient.settings.admin.socket).absolute().parent
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    found = existing.stat()
    if not os.access(existing, os.W_OK | os.X_OK):
        do = "RuntimeDirectory=faircall in the unit, XDG_RUNTIME_DIR, or another admin.socket"
        yield fail("folder", f"{existing} is not writable for uid {os.geteuid()}", do)
    elif existing != folder:
        yield ok("folder", f"{folder} will be made")
    elif found.st_uid not in (os.geteuid(), 0):
        yield fail("folder", f"{folder} belongs to uid {found.st_uid}", "set admin.socket")
    elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        yield fail("folder", f"others may write in {folder}", f"chmod 700 {folder}")
    elif found.st_mode & stat.S_IWOTH:
        do = "a folder of its own keeps others from taking the path first"
        yield warn("folder", f"{folder} is everybody's", do)
    else:
        yield ok("folder", str(folder))
