"""The service that load generators call: an echo, and calls that cost a known amount of CPU time.

The cost is a number of loop turns, measured once against this thread's CPU clock, not a wait for
the wall clock: a call that is descheduled still has its whole work to
do.  FAIRCALL_SPIN_TURNS_PER_MS gives the number instead, so that every process of a comparison
does exactly the same work.
"""

from __future__ import annotations

import base64
import functools
import os
import random
import threading
import time
from typing import Any, Literal

from ..workers.context import current_call
from ..workers.service import Service
from .pauses import PauseWatch

TURNS_VARIABLE = "FAIRCALL_SPIN_TURNS_PER_MS"
PROSE = "Callers take turns within a level, and levels by their weights. "
_TRIALS = 15
_TRIAL_TURNS = 20_000

service = Service("perf")
_watch = PauseWatch()
_turns_per_ms = 0


def spin(turns: int) -> int:
    """Pure-Python integer work; returns a number so that nothing of it can be left out."""
    value = 1
    for _ in range(turns):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return value


def measured_turns_per_ms() -> int:
    """Turns of `spin` in one ms of CPU time: the fastest trial, as others can only slow it."""
    fastest_ns = min(_spin_cpu_ns(_TRIAL_TURNS) for _ in range(_TRIALS))
    return max(1, _TRIAL_TURNS * 1_000_000 // fastest_ns)


def turns_per_ms() -> int:
    """The number in use, from the environment or measured once in this process."""
    global _turns_per_ms
    if not _turns_per_ms:
        _turns_per_ms = int(os.environ.get(TURNS_VARIABLE, 0)) or measured_turns_per_ms()
    return _turns_per_ms


def _spin_cpu_ns(turns: int) -> int:
    start_ns = time.thread_time_ns()
    spin(turns)
    return max(1, time.thread_time_ns() - start_ns)


@service.on_start
def calibrate() -> None:
    """Before the first call rather than inside it."""
    turns_per_ms()


@service.method(idempotent=True)
def echo(x: Any) -> Any:
    return x


@service.method(idempotent=True)
def spin1(x: Any = None) -> Any:
    """1 ms of CPU time, then `x`."""
    began = _watch.began()
    spin(turns_per_ms())
    _watch.ended(began)
    return x


@service.method(idempotent=True)
def spin10(x: Any = None) -> Any:
    """10 ms of CPU time, then `x`."""
    spin(10 * turns_per_ms())
    return x


@service.method(idempotent=True)
def spin20(x: Any = None) -> Any:
    """20 ms of CPU time, then `x`."""
    spin(20 * turns_per_ms())
    return x


@service.method(idempotent=True)
def turns(count: int) -> int:
    """That many turns of `spin`, however long they take."""
    return spin(count)


@service.method(idempotent=True)
def text(size: int) -> str:
    """A page's text: `size` characters of prose."""
    return (PROSE * (size // len(PROSE) + 1))[:size]


@functools.cache
def pixels(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@service.method(idempotent=True)
def image(size: int) -> str:
    """`size` bytes that nothing compresses, in base64: a third more on the wire."""
    return base64.b64encode(pixels(size)).decode()


@service.method(idempotent=True)
def nap(ms: float) -> float:
    """Waits this many milliseconds without a processor."""
    time.sleep(ms / 1000)
    return ms


@service.method(idempotent=True, batch=32, within_ms=2)
def model(x: list[int]) -> list[int]:
    """As a model on an accelerator: 10 ms for any number, and 0.1 ms for each."""
    time.sleep(0.010 + 0.0001 * len(x))
    return x


@service.method(idempotent=True)
def model_alone(x: int) -> int:
    """The same for one call at a time."""
    return model([x])[0]


_files: dict[str, int] = {}  # descriptors by path


@service.method(idempotent=True)
def stamp(path: str, ms: float = 0.0, padding: str = "") -> int:
    """Adds the time of its claim to the file `path` (8 bytes, monotonic ns), then waits `ms`.

    The file counts every run that has begun, also of calls whose handler dies.
    """
    if path not in _files:
        _files[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    claimed_ns = current_call().claimed_ns
    os.write(_files[path], claimed_ns.to_bytes(8, "little"))
    if ms:
        time.sleep(ms / 1000)
    return claimed_ns


_lock = threading.Lock()


@service.method(idempotent=True)
def locked(ms: float, kind: Literal["free", "shared", "exclusive"]) -> float:
    """The same wait without a lock, under a shared one, or under an exclusive one."""
    call = current_call()
    if kind == "free":
        return nap(ms)
    with call.lock_shared(_lock) if kind == "shared" else call.lock_exclusive(_lock):
        return nap(ms)
