"""Where admin sockets lie: one private directory per user, one socket per daemon."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def runtime_directory(environ: Mapping[str, str], uid: int) -> Path:
    """`$XDG_RUNTIME_DIR/faircall`, or for root /run/faircall, or /tmp/faircall-<uid>.

    /run/faircall also serves a daemon without root that may write there (systemd makes it so).
    """
    if environ.get("XDG_RUNTIME_DIR"):
        return Path(environ["XDG_RUNTIME_DIR"]) / "faircall"
    system = Path("/run/faircall")
    if uid == 0 or os.access(system, os.W_OK):
        return system
    return Path(f"/tmp/faircall-{uid}")


def admin_socket(directory: Path, port: int, pid: int) -> Path:
    """By port; daemons on a port of the kernel's choice are told apart by their process number."""
    return directory / (f"{port}.sock" if port else f"0-{pid}.sock")


def make_private(directory: Path) -> None:
    """Make `directory` with mode 0700, or check that it is ours and closed to all others.

    PermissionError says what is wrong: another user may have made /tmp/faircall-<uid> first.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{directory} is not a directory")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to uid {found.st_uid}, not to this daemon")
    if found.st_mode & 0o077:
        raise PermissionError(f"{directory} is open to others: chmod 700 {directory}")


def admin_sockets(directory: Path) -> list[Path]:
    """The admin sockets that lie in `directory`, by name; none if there is no such directory."""
    return sorted(directory.glob("*.sock"))
