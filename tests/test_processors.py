"""How many processors: the files of /proc and /sys as they are on several kinds of machines."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from faircall.server.settings.processors import Processors, available, cgroup_quota, smaller


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = "5:memory:/job\n4:cpu,cpuacct:/job/a\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        pytest.param({}, math.inf, id="no cgroups"),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"},
            1.5,
            id="v2, a container's own root",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
            math.inf,
            id="v2, no quota",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
            },
            2.0,
            id="v2, a parent allows less",
        ),
        pytest.param(
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu,cpuacct/job/a/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu,cpuacct/job/a/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3.0,
            id="v1",
        ),
        pytest.param(
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            0.5,
            id="v1 in a container, the path is the host's",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "garbage"},
            math.inf,
            id="unreadable",
        ),
    ],
)
def test_the_quota_of_the_cgroups(tmp_path: Path, files: dict[str, str], quota: float) -> None:
    assert cgroup_quota(write(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("affinity", "quota", "expected"),
    [
        (4, math.inf, Processors(4, "the CPU affinity mask holds 4")),
        (4, 8.0, Processors(4, "the CPU affinity mask holds 4")),
        (8, 2.5, Processors(2, "the cgroup's CPU quota is 2.5 processors")),
        (8, 0.5, Processors(1, "the cgroup's CPU quota is 0.5 processors")),
    ],
)
def test_the_smaller_counts_and_is_named(affinity: int, quota: float, expected: object) -> None:
    assert smaller(affinity, quota) == expected


def test_without_cgroups_the_affinity_counts(tmp_path: Path) -> None:
    assert available(tmp_path).count == len(os.sched_getaffinity(0))
