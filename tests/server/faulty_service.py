"""A service whose methods do to their handler what user code can do."""

from __future__ import annotations

import os
import signal
import sys
import time

from faircall import Service

service = Service("faulty")


@service.method
def pid() -> int:
    return os.getpid()


@service.method
def die(number: int) -> None:
    os.kill(os.getpid(), number)


@service.method(idempotent=True)
def die_again() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@service.method
def leave() -> None:
    sys.exit(3)


@service.method
def spin() -> None:
    while True:
        try:
            time.sleep(0)
        except Exception:
            continue


@service.method
def random_number() -> float:
    import numpy as np

    return float(np.random.random())


@service.method
def started_program_ends_by_sigterm() -> bool:
    import subprocess

    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    program.terminate()
    status = program.wait(10)
    program.stdin.close()  # type: ignore[union-attr]
    return status == -signal.SIGTERM


@service.method
def forked_child_ends_by_sigterm() -> bool:
    child = os.fork()
    if not child:
        signal.pause()
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


@service.method
def descriptors() -> list[str]:
    folder = "/proc/self/fd"
    links = []
    for number in os.listdir(folder):
        try:
            links.append(os.readlink(f"{folder}/{number}"))
        except FileNotFoundError:  # that of the listing
            continue
    return links


@service.on_stop
def stopped() -> None:
    if place := os.environ.get("FAULTY_STOPPED"):
        os.close(os.open(f"{place}-{os.getpid()}", os.O_CREAT))
