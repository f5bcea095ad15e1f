"""What systemd is told when it is slow to listen; the rest is in tests/e2e/test_systemd.py."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from faircall.server.supervisor.notify import SILENT_NS, Notifier
from faircall.shm.states import Phase


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """Its socket, under a name that the kernel chose."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("")
        sock.setblocking(False)
        yield sock


@pytest.fixture
def notifier(manager: socket.socket) -> Iterator[Notifier]:
    name: bytes = manager.getsockname()
    with contextlib.closing(Notifier("@" + name[1:].decode(), watchdog_us=1)) as notifier:
        yield notifier


def heard(manager: socket.socket) -> list[str]:
    """The first assignment of each message that has come."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(manager.recv(4096).decode().partition("\n")[0])
    return found


def fill(notifier: Notifier) -> None:
    """Signs of life until no more are taken."""
    for number in range(10_000):
        notifier.tick([], number * SILENT_NS, running=False)


def test_a_change_is_told_when_a_slow_manager_listens_again(
    manager: socket.socket, notifier: Notifier
) -> None:
    fill(notifier)
    notifier.reloading()
    notifier.ready([])
    notifier.stopping(Phase.DRAINING)
    alive = heard(manager)
    assert set(alive) == {"WATCHDOG=1"}
    notifier.tick([], 0, running=False)
    later = heard(manager)
    assert [line for line in later if line != "WATCHDOG=1"] == [
        "RELOADING=1",
        "READY=1",
        "STOPPING=1",
    ]
    assert len(later) < len(alive) + 4, "signs of life are not kept"


def test_a_manager_that_is_gone_is_told_nothing(manager: socket.socket, notifier: Notifier) -> None:
    manager.close()
    notifier.ready([])
    notifier.stopping(Phase.DRAINING)
