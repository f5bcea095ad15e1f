"""How many processors this process may use: its affinity mask and its cgroups' CPU quota."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

UNLIMITED = math.inf

QuotaReader = Callable[[Path], float]


@dataclass(frozen=True, slots=True)
class Processors:
    """`count` is at least 1; `why` is the end of a sentence that says what limits it."""

    count: int
    why: str


def available(root: Path = Path("/")) -> Processors:
    """The smaller of affinity and quota, the quota rounded down."""
    return smaller(len(os.sched_getaffinity(0)), cgroup_quota(root))


def smaller(affinity: int, quota: float) -> Processors:
    if quota < affinity:
        return Processors(max(1, int(quota)), f"the cgroup's CPU quota is {quota:g} processors")
    return Processors(affinity, f"the CPU affinity mask holds {affinity}")


def cgroup_quota(root: Path = Path("/")) -> float:
    """Processors' worth of time that the cgroups (v1 or v2) grant; `UNLIMITED` without a quota."""
    quotas = [
        read_quota(directory)
        for read_quota, top, path in _memberships(root)
        for directory in _upwards(top, path)
    ]
    return min(quotas, default=UNLIMITED)


def _memberships(root: Path) -> Iterator[tuple[QuotaReader, Path, PurePosixPath]]:
    """For each hierarchy with CPU quotas: how to read one, its mount point, our path in it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield _quota_v2, root / "sys/fs/cgroup", PurePosixPath(path)
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                yield _quota_v1, root / "sys/fs/cgroup" / name, PurePosixPath(path)


def _upwards(top: Path, path: PurePosixPath) -> Iterator[Path]:
    """The directories from ours to the top: an ancestor's quota counts, too.

    In a container the path may be that of the host and not exist; the top then is our own.
    """
    for ancestor in (path, *path.parents):
        yield top / str(ancestor).lstrip("/")


def _quota_v2(directory: Path) -> float:
    words = _read(directory / "cpu.max").split()
    return _ratio(*words) if len(words) == 2 else UNLIMITED


def _quota_v1(directory: Path) -> float:
    quota, period = (_read(directory / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return _ratio(quota, period)


def _ratio(quota: str, period: str) -> float:
    """`max`, -1 and whatever is no number are no limit."""
    try:
        amount, length = int(quota), int(period)
    except ValueError:
        return UNLIMITED
    return amount / length if amount > 0 and length > 0 else UNLIMITED


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
