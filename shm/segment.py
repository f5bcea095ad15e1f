"""The shared segment, mapped: created exclusively, mode 0600, real pages, unlinked at once.

No name is left when `create` returns, so nothing can leak: children inherit the mapping by fork.
Where /dev/shm cannot hold it (Docker's default is 64 MiB) an anonymous memfd takes its place.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import secrets
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import posix_ipc

from . import mutex
from .layout import CACHE_LINE, HEADER, MAGIC, WORD, Geometry, Layout, word_of
from .mutex import RobustMutex

NAME_PREFIX = "/faircall-"
SHM_FOLDER = "/dev/shm"

_MAGIC, _LAYOUT, _BYTES = (word_of(HEADER, name) for name in ("magic", "layout", "bytes"))


class SegmentError(Exception):
    """Base of what can go wrong with a segment; the message gives the figures."""


class SegmentNotReady(SegmentError):
    """Its creator has not finished it, or it is no segment of ours."""


class LayoutMismatch(SegmentError):
    """Made by another layout version, for another geometry or under another libc."""


class NoRoom(SegmentError):
    """Neither /dev/shm nor a memfd can hold it."""


class Segment:
    """`q` is the whole segment as native 64-bit words: `q[i] = v` is ONE aligned 8-byte store.

    (`struct.pack_into` is not: it zero-fills first, and who dies in between leaves a zeroed word.)
    """

    def __init__(self, fd: int, memory: mmap.mmap, layout: Layout, backing: str) -> None:
        self.fd = fd
        self.memory = memory
        self.layout = layout
        self.backing = backing  # "/dev/shm" or "memfd"
        self.geometry = layout.geometry
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.q = memoryview(memory).cast("Q")
        self.bytes = memoryview(memory)

    @classmethod
    def create(cls, geometry: Geometry) -> Segment:
        """A new segment, zeroed but for its header and locks. NoRoom if the memory is not there."""
        layout = Layout(geometry, mutex.abi())
        fd, backing = _allocate(layout.total_bytes)
        segment = cls(fd, mmap.mmap(fd, layout.total_bytes), layout, backing)
        for index in range(segment.lock_count):
            segment.lock_at(index, "new", lambda: None).initialise()
        header = segment.records(HEADER, layout.header, 1)
        header["layout"] = layout.identity
        header["bytes"] = layout.total_bytes
        header["boot"] = secrets.randbits(64)
        header["creator_pid"] = os.getpid()
        header["created_ns"] = time.monotonic_ns()
        segment.q[_MAGIC] = MAGIC
        return segment

    @classmethod
    def attach(cls, fd: int, geometry: Geometry) -> Segment:
        """Map the segment behind `fd`; SegmentNotReady or LayoutMismatch if it is another."""
        layout = Layout(geometry, mutex.abi())
        size = os.fstat(fd).st_size
        if size != layout.total_bytes:
            raise LayoutMismatch(f"segment of {size} bytes, wanted {layout.total_bytes}")
        segment = cls(fd, mmap.mmap(fd, size), layout, "attached")
        segment.check_header()
        return segment

    def check_header(self) -> None:
        """Refuse what another version, geometry or libc made."""
        q = self.q
        if q[_MAGIC] != MAGIC:
            raise SegmentNotReady(f"segment is not ready: magic={q[_MAGIC]:#x}")
        ours = (self.layout.identity, self.layout.total_bytes)
        if (theirs := (q[_LAYOUT], q[_BYTES])) != ours:
            raise LayoutMismatch(
                f"segment layout={theirs[0]:#x} bytes={theirs[1]}, ours={ours[0]:#x} {ours[1]}"
            )

    @property
    def lock_count(self) -> int:
        return (self.layout.shard - self.layout.locks) // CACHE_LINE

    def lock_at(self, index: int, name: str, rebuild: Any) -> RobustMutex:
        """Lock `index`: 0 the queue, 1 the names, 2 the pages, 3 + r the answers of reader r."""
        return RobustMutex(self.base + self.layout.locks + index * CACHE_LINE, name, rebuild)

    def records(self, dtype: np.dtype[np.void], offset: int, count: int) -> npt.NDArray[np.void]:
        """`count` records of `dtype` at byte `offset`: shape (count,), shared, not copied."""
        return np.frombuffer(self.memory, dtype=dtype, count=count, offset=offset)

    def words(self, offset: int, count: int) -> npt.NDArray[np.uint64]:
        """`count` words at byte `offset`: shape (count,), shared, not copied."""
        return np.frombuffer(self.memory, dtype=np.uint64, count=count, offset=offset)

    def word(self, offset: int, record: np.dtype[np.void], field: str) -> int:
        """The index in `q` of `field` of the record at byte `offset`."""
        return offset // WORD + word_of(record, field)


def sweep_stale() -> list[str]:
    """Unlink segments whose creator died between making and unlinking one; returns their names."""
    mine = f"{NAME_PREFIX[1:]}{os.geteuid()}-"
    swept = []
    for name in os.listdir(SHM_FOLDER) if os.path.isdir(SHM_FOLDER) else []:
        pid = name[len(mine) :].partition("-")[0]
        if name.startswith(mine) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(SHM_FOLDER, name))
                swept.append(name)
    return swept


def _allocate(size: int) -> tuple[int, str]:
    """A descriptor with `size` bytes of real pages behind it, and what backs it."""
    try:
        return _posix_shm(size), SHM_FOLDER
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.ENOENT, errno.ENOSYS):
            raise
    fd = os.memfd_create("faircall", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        os.close(fd)
        raise NoRoom(f"no room for a segment of {size} bytes: {error.strerror}") from None
    return fd, "memfd"


def _posix_shm(size: int) -> int:
    name = f"{NAME_PREFIX}{os.geteuid()}-{os.getpid()}-{secrets.token_hex(8)}"
    shared = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=0o600, size=0)
    fd = int(shared.fd)
    try:
        shared.unlink()  # from here on nothing can leak
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or status.st_mode & 0o177:
            raise PermissionError(f"{name}: owner {status.st_uid}, mode {status.st_mode:o}")
        os.posix_fallocate(fd, 0, size)  # ENOSPC here, not SIGBUS later
    except BaseException:
        os.close(fd)
        raise
    return fd
