"""For tests of services: `TestClient` runs calls in the test's own process, the pytest fixtures
`faircall_server` and `faircall_servers` (`plugin`) start real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import TestClient as TestClient

__all__ = ["TestClient"]


def __getattr__(name: str) -> object:
    if name != "TestClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .client import TestClient

    return TestClient
