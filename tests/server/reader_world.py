"""A reader and its handlers in one process, stepped by hand, with clients on socket pairs.

    client = world.connect(); client.send(call("echo", ["x"], 1)); world.run(); client.answers()

Nothing sleeps and no clock runs: time is `world.now_ns`, which only `world.pass_ms` moves.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
from typing import Any

from faircall.server.admission import AdmissionLimits
from faircall.server.client_limits import ClientLimits
from faircall.server.connection import Connection
from faircall.server.handoff import Handoff
from faircall.server.reader import Reader
from faircall.server.timeouts import Timeouts
from faircall.server.trusted_peers import TrustedPeers, trusted_peers
from faircall.server.wire.limits import WireLimits
from faircall.shm import states
from faircall.shm.layout import WORD, Geometry
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.shared import Shared
from faircall.workers.context import Call, current_call
from faircall.workers.handler import Handler, HandlerLimits
from faircall.workers.service import Service

MS = 1_000_000
START_NS = 1_000_000 * MS
SMALL = Geometry(
    readers=1,
    handlers=2,
    slots=32,
    levels=4,
    turns=64,
    identities=16,
    methods=16,
    limiters=2,
    small_pages=64,
    large_pages=8,
)
POLICY = QueuePolicy(capacities=(8, 8, 8, 8), max_principal=16)
NOBODY_TRUSTED = trusted_peers(())
SELF_TRUSTED = trusted_peers(("uid:self",), loopback=True)


class Client:
    """The client's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.setblocking(False)
        self.received = b""
        self.ended = False  # the server has said its last word
        self.reset = False

    def send(self, data: bytes) -> None:
        """All of it: the socket has room, or the server is gone."""
        while data:
            try:
                data = data[self.sock.send(data) :]
            except (BrokenPipeError, ConnectionResetError):
                self.ended = True
                return

    def try_send(self, data: bytes) -> int:
        """What the socket takes."""
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError):
            self.ended = True
            return 0

    def read(self) -> bytes:
        """Everything that has arrived so far, from the first byte on."""
        while not self.ended:
            try:
                data = self.sock.recv(1 << 20)
            except BlockingIOError:
                break
            except ConnectionResetError:
                self.ended = self.reset = True
                break
            self.ended = not data
            self.received += data
        return self.received

    def answers(self) -> list[Any]:
        """The lines that have arrived, decoded."""
        return [json.loads(line) for line in self.read().splitlines()]

    def bodies(self) -> list[bytes]:
        """The bodies of the HTTP answers that have arrived."""
        bodies, rest = [], self.read()
        while b"\r\n\r\n" in rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or 0)
            if len(rest) >= length:
                bodies.append(rest[:length])
            rest = rest[length:]
        return bodies

    def forget(self) -> None:
        """What has arrived was looked at."""
        self.read()
        self.received = b""

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.ended = True
        self.sock.close()


class World:
    """`reader` and `handlers` share what the processes of one server would."""

    def __init__(
        self,
        *,
        geometry: Geometry = SMALL,
        policy: QueuePolicy = POLICY,
        backoff: bool = True,
        trusted: TrustedPeers = SELF_TRUSTED,
        limits: ClientLimits | None = None,
        admission: AdmissionLimits | None = None,
        timeouts: Timeouts | None = None,
        wire: WireLimits | None = None,
        handler: HandlerLimits | None = None,
    ) -> None:
        self.now_ns = START_NS
        self.shared = Shared(geometry, policy)
        self.service = Service()
        self.seen: list[Call] = []  # what `context` found
        self._declare(self.service)
        self.handoff = Handoff()
        self.settings = {
            "trusted": trusted,
            "wire_limits": wire or WireLimits(),
            "limits": limits or ClientLimits(),
            "admission_limits": admission or AdmissionLimits(),
            "timeouts": timeouts or Timeouts(),
            "backoff": backoff,
            "identities": geometry.identities,
        }
        self.reader = self.new_reader()
        self._handler_limits = handler or HandlerLimits()
        self.handlers = [self._new_handler(number) for number in range(geometry.handlers)]
        self.clients: list[Client] = []

    def clock(self) -> int:
        return self.now_ns

    def new_reader(self, number: int = 0) -> Reader:
        """A reader with these settings: the first one, or the successor of a dead one."""
        far = self.handoff.far
        kept: dict[str, Any] = self.settings
        return Reader(self.shared, number, far, clock=self.clock, **kept)

    def pass_ms(self, ms: float) -> None:
        """Time goes on."""
        self.now_ns += int(ms * MS)

    # -- clients -----------------------------------------------------------------------------------

    def connect(self, *, tcp: bool = False) -> Client:
        """A new connection, handed over to the reader and adopted by it."""
        client = self.knock(tcp=tcp)
        self.reader.do_work()
        return client

    def knock(self, *, tcp: bool = False) -> Client:
        """A new connection, handed over to the reader and not yet adopted."""
        near, far = _tcp_pair() if tcp else socket.socketpair()
        assert self.handoff.send(far)
        far.close()
        self.clients.append(Client(near))
        return self.clients[-1]

    def connection(self, index: int = -1) -> Connection:
        """The server's side of one of its connections, in order of descriptors' adoption."""
        return list(self.reader.clients.by_fd.values())[index]

    # -- stepping ----------------------------------------------------------------------------------

    def read(self) -> int:
        """One pass of the reader."""
        return self.reader.do_work()

    def handle(self, number: int = 0) -> int:
        """One claim of a handler, and all that it brings; one that user code ends is replaced."""
        try:
            return self.handlers[number].do_work()
        except SystemExit:
            self.shared.table.recovery.reap_handler(number)
            self.handlers[number] = self._new_handler(number)
            return 1

    def _new_handler(self, number: int) -> Handler:
        self.shared.expect("handler", number)
        handler = Handler(self.shared, number, self.service, self._handler_limits, self.clock)
        handler.start()
        return handler

    def run(self) -> None:
        """Until nothing moves any more, and nothing would: a server that spins fails here."""
        idle = 0
        while idle < 3:
            moved = self.read() + sum(self.handle(number) for number in range(len(self.handlers)))
            idle = 0 if moved or self.reader.clients.ready else idle + 1
        bells = {*self.shared.doorbells.readers}
        assert [event for event in self.reader.poll() if event[0] not in bells] == []

    def send(self, client: Client, data: bytes) -> None:
        """All of `data`, however long: the reader passes meanwhile."""
        while data and not client.ended:
            data = data[client.try_send(data) :]
            self.read()

    def publish_level(self, name: str, level: int) -> None:
        """What the janitor does with the level of a caller."""
        row = self.shared.names.identity(name, self.now_ns)
        self.shared.segment.q[self.shared.names.word(row, "level")] = level

    # -- looking -----------------------------------------------------------------------------------

    def count(self, counter: int) -> int:
        """A counter, over all processes."""
        return self.shared.columns.total(counter)

    def states(self) -> dict[str, int]:
        """How many slots are in each state but FREE."""
        counts = self.shared.table.recovery.count_states()
        del counts["FREE"]
        return dict(counts)

    def word(self, slot: int, offset: int = 0) -> int:
        at = self.shared.segment.layout.slots // WORD + slot * SLOT_WORDS + offset
        return self.shared.segment.q[at]

    def verify(self) -> None:
        """With nothing in flight: every slot, page and byte of input is accounted for."""
        assert self.states() == {}
        assert self.shared.audit() == []
        assert self.shared.pages.leaked() == 0
        assert self.reader.book.calls == {}
        assert not self.reader.enqueuer.staged
        assert not self.reader.enqueuer.blocked
        for connection in self.reader.clients.by_fd.values():
            assert (connection.calls, connection.paused, connection.unsent) == (set(), 0, 0)
        held = sum(each.buffered for each in self.reader.clients.by_fd.values())
        assert self.reader.clients.unfinished.held == held

    def finish(self) -> None:
        """Every client leaves; then nothing of them is left."""
        for client in self.clients:
            client.close()
        self.run()
        clients = self.reader.clients
        assert clients.by_fd == {}
        assert not clients.touched
        assert not clients.watched
        self.verify()
        gc.collect()
        left = [each for each in gc.get_objects() if isinstance(each, Connection)]
        assert [each for each in left if each._touched is clients.touched] == []

    def close(self) -> None:
        """Its descriptors; the memory goes with the last reference."""
        for client in self.clients:
            client.close()
        for connection in list(self.reader.clients.by_fd.values()):
            self.reader.clients.close(connection)
        self.reader.close()
        self.handoff.close()
        self.shared.doorbells.close()
        os.close(self.shared.segment.fd)
        gc.unfreeze()
        gc.enable()

    def _declare(self, service: Service) -> None:
        @service.method(idempotent=True)
        def echo(x: object = None) -> object:
            return x

        @service.method
        def fail(text: str = "no") -> None:
            raise RuntimeError(text)

        @service.method
        def spend(ms: float) -> str:
            """Takes so long."""
            self.pass_ms(ms)
            return "spent"

        @service.method
        def big(count: int) -> str:
            return "x" * count

        @service.method(timeout=0.5)
        def brief() -> str:
            return "brief"

        @service.method
        def seen() -> str:
            """Leaves its call to be looked at."""
            self.seen.append(current_call())
            return current_call().user

        @service.method
        def end() -> None:
            raise SystemExit(3)


def call(method: str, params: Any = None, id: Any = None, **members: Any) -> bytes:
    """One request as a line; without `id` a notification."""
    request: dict[str, Any] = {"jsonrpc": "2.0", "method": method, **members}
    if params is not None:
        request["params"] = params
    if id is not None:
        request["id"] = id
    return json.dumps(request).encode() + b"\n"


def batch(*calls: bytes) -> bytes:
    """Several requests as one line."""
    return b"[" + b",".join(line.strip() for line in calls) + b"]\n"


def post(body: bytes, **headers: Any) -> bytes:
    """One HTTP request; `X_Faircall_User="anna"` is a header."""
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return (head + "".join(lines) + "\r\n").encode() + body


def frame(body: bytes) -> bytes:
    """One message with a Content-Length."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def reasons(answers: list[Any]) -> list[Any]:
    """Of each answer: its id, and "ok" or the reason of its error."""
    return [
        (each["id"], each["error"]["data"]["reason"] if "error" in each else "ok")
        for each in answers
    ]


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        near = socket.create_connection(listener.getsockname())
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small pieces arrive at once
        far, _ = listener.accept()
    return near, far


__all__ = ["Client", "World", "batch", "call", "frame", "post", "reasons", "states"]
