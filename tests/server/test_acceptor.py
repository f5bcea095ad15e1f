"""The acceptor, stepped by hand between real sockets."""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from faircall.server.acceptor.acceptor import Acceptor
from faircall.server.acceptor.handoff import TCP, UNIX, Handoff
from faircall.server.port import Port
from faircall.shm.columns import Counter
from faircall.shm.states import Life

from ..conftest import Load
from .supervised import SMALL


class Bench:
    """A port with some readers, an acceptor on it, and clients."""

    def __init__(self, port: Port, stack: ExitStack) -> None:
        self.port, self._stack = port, stack
        self.supervisor, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.callback(port.close)
        stack.enter_context(self.supervisor)
        stack.enter_context(channel)
        self.rows = [port.shared.row("reader", n) for n in range(len(port.handoffs))]
        for row in self.rows:
            row["status"] = Life.READY
        self.acceptor = Acceptor(port, channel)

    def connect(self, count: int = 1, listener: int = 0) -> list[socket.socket]:
        """Connections that wait in the backlog."""
        bound = self.port.listeners[listener].socket
        clients = []
        for _ in range(count):
            client = self._stack.enter_context(socket.socket(bound.family))
            client.settimeout(10)
            client.connect(bound.getsockname())
            clients.append(client)
        return clients

    def accept(self, count: int = 1) -> None:
        """Connect, and let the acceptor do its work."""
        self.connect(count)
        assert self.acceptor.do_work()

    def pending(self) -> list[int]:
        return [handoff.pending() for handoff in self.port.handoffs]

    def adopt(self, reader: int) -> tuple[bytes, socket.socket]:
        """As a reader does: the message, and the connection."""
        message, fds, _, _ = socket.recv_fds(self.port.handoffs[reader].far, 16, 4)
        self.rows[reader]["connections"] += 1
        return message, self._stack.enter_context(socket.socket(fileno=fds[0]))

    def refused(self) -> int:
        return int(self.port.shared.columns.total(Counter.REFUSED_CONNECTIONS))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def bench(load: Load, stack: ExitStack, *, readers: int = 2, more: str = "") -> Bench:
    text = SMALL.replace("readers = 1", f"readers = {readers}\n{more}")
    settings = load(text)
    return Bench(Port(settings, settings.ports[0]), stack)


def test_each_connection_goes_to_the_reader_with_the_fewest(load: Load, stack: ExitStack) -> None:
    b = bench(load, stack, readers=3)
    b.rows[0]["connections"], b.rows[1]["connections"] = 2, 1
    b.accept(3)
    assert b.pending() == [0, 1, 2]


def test_those_on_their_way_count_and_those_adopted_do_not_count_twice(
    load: Load, stack: ExitStack
) -> None:
    b = bench(load, stack)
    b.accept(4)
    assert b.pending() == [2, 2]
    b.adopt(0)
    assert b.pending() == [1, 2]
    b.accept(2)
    assert b.pending() == [2, 3]
    assert [row["handed"] for row in b.rows] == [3, 3]


def test_a_connection_arrives_open_and_is_closed_by_its_reader_alone(
    load: Load, stack: ExitStack
) -> None:
    b = bench(load, stack, readers=1)
    (client,) = b.connect()
    b.acceptor.do_work()
    kind, served = b.adopt(0)
    assert kind == TCP
    served.sendall(b"hello")
    assert client.recv(16) == b"hello"
    served.close()
    assert client.recv(16) == b""  # the acceptor has kept no copy


def test_the_message_says_where_a_connection_came_from(
    load: Load, stack: ExitStack, tmp_path: Path
) -> None:
    place = f'"unix:{tmp_path}/s", "tcp://127.0.0.1:0"'
    settings = load(SMALL.replace('"tcp://127.0.0.1:0"', place))
    b = Bench(Port(settings, settings.ports[0]), stack)
    b.connect(listener=0)
    b.acceptor.do_work()
    b.connect(listener=1)
    b.acceptor.do_work()
    kinds = [b.adopt(0) for _ in range(2)]
    assert [kind for kind, _ in kinds] == [UNIX, TCP]
    assert [sock.family for _, sock in kinds] == [socket.AF_UNIX, socket.AF_INET]


def test_what_was_handed_over_outlives_both_acceptor_and_reader(
    load: Load, stack: ExitStack
) -> None:
    b = bench(load, stack)
    pid = os.fork()
    if not pid:  # an acceptor that dies
        try:
            b.accept(4)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert b.pending() == [2, 2]
    pid = os.fork()
    if not pid:  # a reader that dies before it has counted what it adopted
        try:
            socket.recv_fds(b.port.handoffs[0].far, 16, 4)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert b.pending() == [1, 2]
    b.accept(3)
    assert b.pending() == [3, 3]
    assert len([b.adopt(0) for _ in range(3)]) == 3


def test_without_a_ready_reader_connections_stay_in_the_backlog(
    load: Load, stack: ExitStack
) -> None:
    b = bench(load, stack)
    for row in b.rows:
        row["status"] = Life.STARTING
    b.accept(2)
    assert b.pending() == [0, 0]
    b.rows[1]["status"] = Life.READY
    b.acceptor.do_work()  # it breathes: no listener is looked at
    b.acceptor.do_work()
    assert b.pending() == [0, 2]


def test_a_reader_that_does_not_adopt_gets_no_more_than_its_share(
    load: Load, stack: ExitStack
) -> None:
    b = bench(load, stack, more="pending-connections = 3")
    b.accept(10)
    assert b.pending() == [3, 3]
    b.adopt(0)
    b.acceptor.do_work()
    b.acceptor.do_work()
    assert b.pending() == [3, 3]
    assert b.refused() == 0


def test_connections_above_the_limit_are_closed_and_counted(load: Load, stack: ExitStack) -> None:
    b = bench(load, stack, more="max-connections = 3")
    b.rows[0]["connections"] = 1
    clients = b.connect(4)
    b.acceptor.do_work()
    assert sum(b.pending()) == 2
    assert [client.recv(1) for client in clients[2:]] == [b"", b""]
    assert b.refused() == 2


def test_without_descriptors_it_breathes_and_then_goes_on(
    load: Load, stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    b = bench(load, stack, readers=1)
    b.connect(2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        for _ in range(5):
            b.acceptor.do_work()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert b.pending() == [0]
    assert [record.msg for record in caplog.records] == ["cannot accept"]
    assert os.strerror(errno.EMFILE) in str(caplog.records[0].args)
    for _ in range(2):
        b.acceptor.do_work()
    assert b.pending() == [2]


def test_told_to_end_it_takes_what_has_connected(load: Load, stack: ExitStack) -> None:
    b = bench(load, stack, readers=1)
    b.connect(3)
    b.supervisor.shutdown(socket.SHUT_WR)
    b.acceptor.run()
    assert b.pending() == [3]


def test_the_kernel_counts_what_waits_in_a_pair() -> None:
    handoff = Handoff()
    with socket.socket(socket.AF_UNIX) as connection:
        counts = [handoff.pending()]
        for _ in range(3):
            assert handoff.send(connection)
            counts.append(handoff.pending())
        while handoff.send(connection):
            pass
        assert not select.select([], [handoff.near], [], 0)[1]
    assert counts == [0, 1, 2, 3]
    handoff.close()
