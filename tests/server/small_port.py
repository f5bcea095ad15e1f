"""A port with a small segment, made from settings and closed again; nobody serves it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from faircall.server.port import Port, open_ports
from faircall.shm.layout import SLOT, word_of

from ..conftest import Load
from ..fault.calls import Call, Ledger
from ..fault.roles import Handler, Reader

SMALL = """
[server]
bind = ["tcp://127.0.0.1:0"]
readers = 1
[handlers]
count = 2
[limits]
segment-payload-bytes = 1048576
max-message-bytes = 65536
identities = 64
methods = 32
[ipc.0]
callqueue.total-capacity = 64
"""
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}


@contextlib.contextmanager
def small_port(load: Load, text: str = "") -> Iterator[Port]:
    """The port of `SMALL` and `text`."""
    (port,) = open_ports(load(SMALL + text))
    try:
        yield port
    finally:
        port.close()


class Traffic:
    """Users and calls of a port, put into its segment as readers and handlers do."""

    def __init__(self, port: Port) -> None:
        self.shared = port.shared
        self._ledger, self._calls = Ledger(), dict[int, Call]()
        self._reader = Reader(port.shared, self._ledger, 0)
        self._handlers = [
            Handler(port.shared, self._ledger, number, self._calls)
            for number in range(port.shared.geometry.handlers)
        ]

    def user(self, name: str, cost: int = 0) -> int:
        """The row of that user, who is charged `cost`."""
        row = self.shared.names.identity(name, 0)
        self.shared.columns.charge(self.shared.index("reader", 0), row, cost)
        return row

    def offer(self, method: str, user: str, level: int = 0) -> None:
        """A call waits; each method for one call at a time."""
        row = self.shared.names.method(method, 0, 0)
        call = self._calls[row] = Call(tag=row, level=level, who=self.user(user))
        assert self._reader.offer([call]) == [0]

    def begin(self, handler: int, now_ns: int) -> None:
        """That handler claims the next call, and runs it."""
        claimant = self._handlers[handler]
        claimant.claim(now_ns, most=1)
        slot, token = claimant.claimed[0]
        q = self.shared.segment.q
        q[self._reader.own(slot) + _S["arrived_ns"]] = now_ns
        self.shared.row("handler", handler)["current"] = token >> 32 << 32 | slot + 1
