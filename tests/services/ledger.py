"""Methods that write their key into a log before they do anything: what ran can be counted.

One write() to a file that is opened for appending is one line, whoever dies when. The log's path
is that of the environment variable LEDGER.
"""

from __future__ import annotations

import os
import time
from typing import Any

from faircall import Service

service = Service("ledger")
_log = -1


@service.on_start
def open_log() -> None:
    global _log
    _log = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def _run(key: str, ms: float, fails: bool, padding: str) -> str:
    os.write(_log, f"{key}\n".encode())
    if ms:
        time.sleep(ms / 1000)
    if fails:
        raise RuntimeError(key)
    return key + padding


@service.method
def once(key: str, ms: float = 0, fails: bool = False, padding: str = "") -> str:
    """Takes `ms` milliseconds; its result is the key and the padding."""
    return _run(key, ms, fails, padding)


@service.method(idempotent=True)
def again(key: str, ms: float = 0, fails: bool = False, padding: str = "") -> str:
    """The same, but it may be run again where its handler died."""
    return _run(key, ms, fails, padding)


def _run_together(
    key: list[str], ms: list[float], fails: list[bool], padding: list[str]
) -> list[Any]:
    for one in key:
        os.write(_log, f"{one}\n".encode())
    if max(ms):
        time.sleep(max(ms) / 1000)
    return [
        RuntimeError(one) if fail else one + more
        for one, fail, more in zip(key, fails, padding, strict=True)
    ]


@service.method(batch=8, within_ms=2)
def once_together(
    key: list[str], ms: list[float], fails: list[bool], padding: list[str]
) -> list[Any]:
    """The same for several calls at once."""
    return _run_together(key, ms, fails, padding)


@service.method(batch=8, within_ms=2, idempotent=True)
def again_together(
    key: list[str], ms: list[float], fails: list[bool], padding: list[str]
) -> list[Any]:
    """And of calls that may be run again."""
    return _run_together(key, ms, fails, padding)
