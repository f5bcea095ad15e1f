"""Methods that write their key into a log before they do anything: what ran can be counted.

One write() to a file that is opened for appending is one line, whoever dies when. The log's path
is that of the environment variable LEDGER.
"""

from __future__ import annotations

import os
import time

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
