"""Whom a case calls: a server of its own, or one that runs somewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from ...client.address import TARGET, Address
from ...server.demo.server import DemoServer, running_server
from .specs import CaseSpec
from .watch import Look, look


@dataclass(frozen=True, slots=True)
class Target:
    """`server` is None where somebody else's server is called, `pid` 0 where its processes are not
    children of one that we know."""

    address: Address
    server: DemoServer | None = None
    pid: int = 0

    def waiting(self) -> int | None:
        """Calls in the queue now; None if that cannot be known."""
        with contextlib.suppress(OSError, LookupError):
            return int(self.server.stats()["queue"]["waiting"]) if self.server else None
        return None

    def look(self) -> Look | None:
        """At the server's processes; None if we do not know them."""
        return look(self.pid) if self.pid else None


@contextlib.contextmanager
def own(spec: CaseSpec) -> Iterator[Target]:
    """A server for this case alone. `faircall.server.demo.server.NotServing`."""
    server = spec.server
    with running_server(server.handlers, server.as_text(), server.service) as running:
        host, port = running.address
        target = TARGET if spec.framing == "http" else ""
        yield Target(Address(host, port, target=target), running, running.pid)
