"""A daemon that many tests share, and daemons of their own for those that need one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from ..daemon import PROBE, TCP, Daemon, serving

UNIX = "unix:~/x.sock"
FOUR = ("--handlers", "4", "--readers", "2", "--trust-loopback")


class Serve(Protocol):
    """Starts a daemon that serves `target` until the end of the test."""

    def __call__(self, target: Path | str, *args: str, **how: Any) -> Daemon: ...


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with contextlib.ExitStack() as stack:

        def enter(target: Path | str, *args: str, **how: Any) -> Daemon:
            return stack.enter_context(serving(tmp_path, target, *args, **how))

        yield enter


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """For tests that leave it as it was; loopback peers are trusted there."""
    folder = tmp_path_factory.mktemp("daemon")
    with serving(folder, PROBE, *FOUR, binds=(TCP, UNIX)) as daemon:
        yield daemon


@pytest.fixture(params=["tcp", "unix"])
def address(request: pytest.FixtureRequest, shared: Daemon) -> str:
    """Where the shared daemon listens, one after the other."""
    place: str = getattr(shared, request.param)
    return place
