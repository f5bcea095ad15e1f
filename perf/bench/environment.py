"""What a measurement was made on: machine, Python, versions, commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import faircall

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
LIBRARIES = ("numpy", "orjson", "msgspec", "httptools", "posix-ipc", "click")


def environment() -> Mapping[str, Any]:
    """By name; what cannot be found out is "unknown" or left out. Nothing names a person."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "cores allowed": len(os.sched_getaffinity(0)),
        "memory MiB": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "governor": _read(GOVERNOR),
        "load": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python build": " ".join(platform.python_build()),
        "python flags": _build_flags(),
        "python gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "faircall": faircall.__version__,
        "commit": commit(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    for line in _read(cpuinfo).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.machine() or "unknown"


def commit() -> str:
    """Of the checkout that runs, with `+` if files differ from it; `none` outside of one."""
    root = Path(faircall.__file__).parent
    if not (root / ".git").exists():
        return "none"
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], **_QUIET)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], **_QUIET)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return str(head.stdout).strip() + ("+" if changed.stdout else "")


_QUIET: Mapping[str, Any] = {"check": True, "capture_output": True, "text": True}


def _build_flags() -> str:
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    found = [flag for flag in ("--enable-optimizations", "--with-lto") if flag in arguments]
    return " ".join(found) or "neither --enable-optimizations nor --with-lto"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "unknown"
