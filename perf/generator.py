"""A load generator in one process: raw sockets, prepared bytes, epoll.

    open loop     `rate` calls a second, whatever becomes of them
    closed loop   every connection has one call in flight at every moment

Answers are told apart by their bytes and not decoded. A timed flow measures each call's latency
from the moment at which the call was due, not from that at which it was sent: a late generator or a
slow server cannot hide a wait by delaying the next call (coordinated omission). The clock of a run
stands still while the generator's process is stopped: what it missed is not sent all at once.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SECOND_NS = 1_000_000_000
TICK_NS = 1_000_000  # how long a wait for answers lasts at most
STOPPED_NS = 200_000_000  # who is that late was stopped, and was not slow
DRAIN_NS = 10 * SECOND_NS  # what the last calls may take at most
CHUNK_BYTES = 256 << 10
CONNECT_S = 10.0
NO_LINGER = struct.pack("ii", 1, 0)

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The calls of one user: `rate` a second over `connections`, or closed loops if it is 0.

    `call` is what stands in a request: method and params as JSON. An open loop ends after `calls`,
    if that is not 0. `fresh_names`: every call has a user of its own, claimed on its connection
    just before it.
    """

    user: str
    call: bytes = b'"method":"echo","params":[0]'
    rate: float = 0.0
    connections: int = 1
    calls: int = 0
    timed: bool = False
    starts_s: float = 0.0
    fresh_names: bool = False


@dataclass(slots=True)
class Seen:
    """What a flow saw. `served` and `refused` count by the second in which the answer came;
    `latencies` are (due, latency) in ns, due from the start of the run."""

    served: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    latencies: list[tuple[int, int]] = field(default_factory=list)
    sent: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all that was sent has been answered."""
        return sum(self.served.values()) + sum(self.refused.values()) >= self.sent

    def served_between(self, first_s: int, end_s: int) -> int:
        """Calls whose results came in seconds `first_s` to `end_s` - 1."""
        return sum(self.served[second] for second in range(first_s, end_s))

    def quantile_ms(self, quantile: float, from_s: float = 0.0, to_s: float = 1e9) -> float:
        """That quantile of the latencies of calls due in between; nan if there are none."""
        found = sorted(took for due, took in self.latencies if from_s <= due / SECOND_NS < to_s)
        if not found:
            return float("nan")
        return found[min(int(quantile * len(found)), len(found) - 1)] / 1e6


class Connection:
    """One connection of a flow. Calls are answered in any order; a timed one by its id."""

    def __init__(self, address: Address, flow: Flow, seen: Seen) -> None:
        self.flow, self.seen = flow, seen
        self.due: dict[bytes, int] = {}  # id of each timed call in flight to when it was due
        self.claims = 0
        self._part = b""
        self._unsent: deque[bytes] = deque()
        self.sock = socket.create_connection(address, CONNECT_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(hello(flow.user))
        while not self._part.endswith(b"\n"):
            self._part += self.sock.recv(CHUNK_BYTES)
        if b'"error"' in self._part:
            raise ConnectionError(f"the name was not believed: {self._part.decode()}")
        self._part = b""
        self.sock.setblocking(False)

    def send(self, due_ns: int) -> None:
        """One call that was due at `due_ns`."""
        self.seen.sent += 1
        request = request_of(self.flow.call, self.seen.sent if self.flow.timed else 1)
        if self.flow.timed:
            self.due[b"%d" % self.seen.sent] = due_ns
        if self.flow.fresh_names:
            self.claims += 1
            request = hello(f"{self.flow.user}-{self.seen.sent}") + request
        self._write(request)

    def receive(self, now_ns: int) -> int:
        """Counts the answers that have come; how many. ConnectionError if the server closed."""
        data = self.sock.recv(CHUNK_BYTES)
        if not data:
            raise ConnectionError(f"the server closed a connection of {self.flow.user}")
        whole, newline, self._part = (self._part + data).rpartition(b"\n")
        answers = whole.count(b"\n") + 1 if newline else 0
        refused = whole.count(b'"error"')
        hellos = whole.count(b'"id":"h"')
        answers -= hellos
        second = now_ns // SECOND_NS
        self.seen.refused[second] += refused
        self.seen.served[second] += answers - refused
        if self.flow.timed:
            self._time(whole, now_ns)
        return answers

    def _time(self, lines: bytes, now_ns: int) -> None:
        for line in lines.split(b"\n"):
            id = line.partition(b'"id":')[2].partition(b",")[0].rstrip(b"}")
            due_ns = self.due.pop(id, None)
            if due_ns is not None and b'"error"' not in line:
                self.seen.latencies.append((due_ns, now_ns - due_ns))

    def _write(self, request: bytes) -> None:
        """As much as the socket takes; the rest goes first at the next call."""
        self._unsent.append(request)
        waiting = b"".join(self._unsent)
        self._unsent.clear()
        try:
            sent = self.sock.send(waiting)
        except BlockingIOError:
            sent = 0
        if sent < len(waiting):
            self._unsent.append(waiting[sent:])


def hello(user: str) -> bytes:
    """The claim of a name, as it travels."""
    return b'{"jsonrpc":"2.0","method":"faircall.hello","params":{"user":"%s"},"id":"h"}\n' % (
        user.encode()
    )


def request_of(call: bytes, id: int) -> bytes:
    """A call, as it travels."""
    return b'{"jsonrpc":"2.0",%s,"id":%d}\n' % (call, id)


class Generator:
    """`run` may be called once. `seen` has an entry for each flow, by the name of its user."""

    def __init__(self, address: Address, flows: Sequence[Flow], seed: int = 1) -> None:
        self.seen = {flow.user: Seen() for flow in flows}
        self._flows, self._random = list(flows), random.Random(seed)
        self._by_flow = {
            flow.user: [
                Connection(address, flow, self.seen[flow.user]) for _ in range(flow.connections)
            ]
            for flow in flows
        }
        self._by_fd = {c.sock.fileno(): c for cs in self._by_flow.values() for c in cs}
        self._next_ns: dict[str, int] = {}
        self._started = self._last_ns = 0
        self._sends = True
        self._epoll = select.epoll()
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)

    def run(
        self, seconds: float, every_s: float = 1.0, look: Callable[[float], object] | None = None
    ) -> None:
        """Calls for that long, and `look(elapsed seconds)` every so often; then waits for what is
        left of flows that end after some calls."""
        end_ns, next_look = int(seconds * SECOND_NS), every_s
        self._next_ns = {f.user: int(f.starts_s * SECOND_NS) for f in self._flows}
        begun: set[str] = set()
        self._started = time.monotonic_ns()
        while (now_ns := self._now_ns()) < end_ns:
            for flow in self._flows:
                if flow.rate:
                    self._send_due(flow, now_ns)
                elif flow.user not in begun and now_ns >= flow.starts_s * SECOND_NS:
                    begun.add(flow.user)
                    for connection in self._by_flow[flow.user]:
                        connection.send(now_ns)
            self._take()
            if look is not None and now_ns >= next_look * SECOND_NS:
                look(now_ns / SECOND_NS)
                next_look += every_s
                self._last_ns = time.monotonic_ns()  # looking is no stop
        self._drain(end_ns)

    def close(self, abort: bool = False) -> None:
        """`abort`: reset the connections, so that the server drops at once what waits; after a
        mere close it goes on, for who only ends its sending looks the same."""
        self._epoll.close()
        for connection in self._by_fd.values():
            if abort:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            connection.sock.close()

    def _now_ns(self) -> int:
        """Since the start of the run, without the time in which this process was stopped."""
        now = time.monotonic_ns()
        if self._last_ns and now - self._last_ns > STOPPED_NS:
            self._started += now - self._last_ns
        self._last_ns = now
        return now - self._started

    def _drain(self, end_ns: int) -> None:
        self._sends = False
        counted = [flow.user for flow in self._flows if flow.calls]
        while self._now_ns() < end_ns + DRAIN_NS and not all(
            self.seen[u].is_whole for u in counted
        ):
            self._take()

    def _send_due(self, flow: Flow, now_ns: int) -> None:
        """The calls of an open loop that are due: a Poisson process."""
        due_ns, seen = self._next_ns[flow.user], self.seen[flow.user]
        connections = self._by_flow[flow.user]
        while due_ns <= now_ns and (not flow.calls or seen.sent < flow.calls):
            connections[seen.sent % len(connections)].send(due_ns)
            due_ns += int(self._random.expovariate(flow.rate) * SECOND_NS)
        self._next_ns[flow.user] = due_ns

    def _take(self) -> None:
        """What has come, the answers of timed flows first."""
        if not select.select([self._epoll], [], [], TICK_NS / SECOND_NS)[0]:
            return
        ready = [self._by_fd[fd] for fd, _ in self._epoll.poll(0)]
        for connection in sorted(ready, key=lambda c: not c.flow.timed):
            now_ns = self._now_ns()
            answers = connection.receive(now_ns)
            if self._sends and not connection.flow.rate:
                for _ in range(answers):
                    connection.send(now_ns)
