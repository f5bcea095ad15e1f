"""A listening Unix socket and the lock that says whose it is.

Next to `/run/x.sock` lies `/run/x.sock.lock`. Who holds its flock owns the path: a second daemon is
refused before it touches anything, and what a dead one left is removed only with the lock held. The
kernel drops the lock with its owner, whatever killed it (no child keeps the descriptor).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from dataclasses import dataclass

from ..supervisor.failures import CannotStart

PRIVATE = 0o177  # umask: the socket is for its owner only


@dataclass(frozen=True, slots=True)
class UnixPath:
    """The path of a socket of ours: `inode` is (device, inode), `lock` the locked descriptor."""

    path: str
    inode: tuple[int, int]
    lock: int

    def remove(self) -> None:
        """Unlink the socket, if it still is the one that was bound, then give up the lock."""
        with contextlib.suppress(OSError):
            if _inode(os.lstat(self.path)) == self.inode:
                os.unlink(self.path)
        with contextlib.suppress(OSError):
            os.unlink(_lock_path(self.path))
        os.close(self.lock)


def listen_unix(path: str, backlog: int) -> tuple[socket.socket, UnixPath]:
    """Bind and listen, mode 0600; CannotStart if the path is somebody else's."""
    lock = _take_lock(path)
    try:
        _clear_away(path)
        sock = _bind(path, backlog)
    except BaseException:
        os.close(lock)
        raise
    return sock, UnixPath(path, _inode(os.lstat(path)), lock)


def remove_stale(path: str) -> None:
    """Remove what a dead owner left at `path`; nothing, if it has an owner."""
    if not os.path.exists(_lock_path(path)):
        return
    with contextlib.suppress(OSError, CannotStart):
        lock = _take_lock(path)
        try:
            _clear_away(path)
            os.unlink(_lock_path(path))
        finally:
            os.close(lock)


def _take_lock(path: str) -> int:
    """A descriptor with the lock. (Its last owner removes the file: look whether it is there.)"""
    lock_path = _lock_path(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            lock = os.open(lock_path, flags, 0o600)
        except FileNotFoundError:
            folder = os.path.dirname(path)
            raise CannotStart(f"unix:{path}: the folder {folder} does not exist") from None
        except OSError as error:
            raise CannotStart(f"{lock_path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise CannotStart(f"unix:{path} is in use by another faircall") from None
        with contextlib.suppress(FileNotFoundError):
            if _inode(os.fstat(lock)) == _inode(os.lstat(lock_path)):
                return lock
        os.close(lock)


def _clear_away(path: str) -> None:
    """Remove the socket that a dead daemon left (lock held); nothing else is ours to remove."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise CannotStart(f"unix:{path} exists and is not a socket")
    if somebody_listens(path):
        raise CannotStart(f"unix:{path} is in use by another program")
    os.unlink(path)


def somebody_listens(path: str) -> bool:
    """Whether the socket at `path` is not one that a dead process left."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)


def _bind(path: str, backlog: int) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(PRIVATE)
    try:
        sock.bind(path)
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise CannotStart(f"unix:{path} cannot be bound: {error.strerror}") from None
    finally:
        os.umask(umask)
    return sock


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _lock_path(path: str) -> str:
    return f"{path}.lock"
