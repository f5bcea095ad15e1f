"""What the end-to-end tests call: it tells about its call, waits, ends badly, takes memory."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from faircall import RpcError, Service, current_call

service = Service("probe")


@service.method(idempotent=True)
def echo(x: Any) -> Any:
    return x


@service.method(idempotent=True)
def text(length: int) -> str:
    """An answer of any length."""
    return "x" * length


@service.method
def pid() -> int:
    return os.getpid()


@service.method
def about() -> dict[str, Any]:
    """What this method knows of its call."""
    call = current_call()
    return {
        "method": call.method,
        "user": call.user,
        "context": call.context,
        "traceparent": call.traceparent,
        "attempt": call.attempt,
        "level": call.level,
        "remaining_s": call.remaining(),
        "index": call.worker.index,
    }


@service.method
def hold(fifo: str) -> str:
    """Begin, and end when whoever has opened the other end closes it: see `gates`."""
    return Path(fifo).read_text()


@service.method
def append(path: str, text: str) -> None:
    """Leave a trace."""
    with open(path, "a") as file:
        file.write(text)


@service.method
def refuse(code: int, message: str) -> None:
    raise RpcError(code, message, {"reason": "because"})


@service.method
def fail(message: str) -> None:
    raise RuntimeError(message)


@service.method
def spin() -> None:
    """Never ends, and takes no exception for an answer."""
    while True:
        try:
            for _ in range(1000):
                pass
        except Exception:
            continue


@service.method
def die(number: int) -> None:
    os.kill(os.getpid(), number)


@service.method
def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@service.method
def leave_by_os() -> None:
    os._exit(0)


@service.method
def leave_by_sys() -> None:
    sys.exit(0)


@service.method(idempotent=True)
def die_until(path: str, attempts: int) -> list[int]:
    """Dies `attempts` times, then tells what it knew of each attempt."""
    with open(path, "a") as file:
        file.write(f"{current_call().attempt}\n")
    seen = [int(line) for line in Path(path).read_text().split()]
    if len(seen) <= attempts:
        os.kill(os.getpid(), signal.SIGKILL)
    return seen


@service.method
def take_memory(limit_mib: int, wanted_mib: int) -> int:
    """As a process whose address space is limited."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit_mib << 20, before[1]))
    try:
        return len(bytearray(wanted_mib << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@service.method
def wait(seconds: float) -> None:
    """Take that long."""
    time.sleep(seconds)


@service.method
def environment(name: str) -> str | None:
    return os.environ.get(name)


@service.method
def leave_orphan() -> None:
    """A process whose parent ends before it."""
    subprocess.run(["sh", "-c", "sleep 0 & exit 0"], check=True)
