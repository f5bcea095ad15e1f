"""The pytest plugin, which pytest loads by itself where faircall is installed.

    def test_it_adds(faircall_server):
        server = faircall_server("myapp:service")
        with server.client() as client:
            assert client.call("add", 2, 3) == 5

A server costs a second. `faircall_servers` is the same for fixtures of a wider scope:

    @pytest.fixture(scope="module")
    def server(faircall_servers):
        with faircall_servers("myapp:service") as server:
            yield server
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from ..server.embed.running import running
    from ..workers.service import Service

HANDLERS = 2  # of a server in a test, unless it says something else


class StartServer(Protocol):
    """Starts a server; the options are those of `faircall.running`."""

    def __call__(self, service: Service | str, **options: Any) -> running: ...


class MakeServer(Protocol):
    """A server that `with` starts and stops."""

    def __call__(self, service: Service | str, **options: Any) -> running: ...


@pytest.fixture
def faircall_server() -> Iterator[StartServer]:
    """A function that starts a real server, which ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda service, **options: stack.enter_context(_server(service, **options))


@pytest.fixture(scope="session")
def faircall_servers() -> MakeServer:
    """A function that makes a server for a `with` block: for fixtures of a module or a session."""
    return _server


def _server(service: Service | str, **options: Any) -> running:
    from ..server.embed.running import running

    return running(service, **{"handlers": HANDLERS, **options})
