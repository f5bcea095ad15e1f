"""A reader and its handlers in one process, stepped by hand, with clients on socket pairs.

    client = world.connect(); client.send(call("echo", ["x"], 1)); world.run(); client.answers()

Nothing sleeps and no clock runs: time is `world.now_ns`, which only `world.pass_ms` moves.
"""

from __future__ import annotations

import gc
import os
import socket
from dataclasses import replace

from faircall.scheduling.cost import CostRules
from faircall.server.acceptor.handoff import Handoff
from faircall.server.reader.backoff import BackOffRules
from faircall.server.reader.caller_rules import CallerRules
from faircall.server.reader.client_limits import ClientLimits
from faircall.server.reader.connection import Connection
from faircall.server.reader.lanes import ReservedCalls
from faircall.server.reader.reader import Reader
from faircall.server.reader.settings import LiveSettings, ReaderSettings
from faircall.server.reader.staging import AdmissionLimits
from faircall.server.reader.timeouts import Timeouts
from faircall.server.reader.waiting import WaitLimits
from faircall.server.settings.trusted_peers import TrustedPeers, trusted_peers
from faircall.server.wire.limits import WireLimits
from faircall.shm import states
from faircall.shm.layout import SLOT, Geometry, word_of
from faircall.shm.names import OTHERS
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.shared import Shared
from faircall.workers.context import Call
from faircall.workers.handler import Handler, HandlerLimits

from .. import heap
from ..fault.world import set_to_work
from .reader_client import Client, rounds, tcp_pair
from .reader_service import service_of

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
        waiting: WaitLimits | None = None,
        rules: CallerRules | None = None,
        backoff_rules: BackOffRules | None = None,
        costs: CostRules | None = None,
        reserved: ReservedCalls | None = None,
    ) -> None:
        self.now_ns = START_NS
        self.shared = Shared(geometry, replace(policy, backoff=backoff))
        set_to_work(self.shared)
        self.seen: list[Call] = []  # what `context` found
        self.service = service_of(self)
        self.handoff = Handoff()
        self.settings = ReaderSettings(
            live=LiveSettings(
                limits=limits or ClientLimits(),
                admission_limits=admission or AdmissionLimits(),
                timeouts=timeouts or Timeouts(),
                backoff_rules=backoff_rules or BackOffRules(),
                reserved=reserved or ReservedCalls(),
            ),
            trusted=trusted,
            wire_limits=wire or WireLimits(),
            rules=rules or CallerRules(),
            costs=costs or CostRules(),
            identities=geometry.identities,
            waiting=waiting or WaitLimits(),
        )
        self.reader = self.new_reader()
        self._handler_limits = handler or HandlerLimits(costs=costs or CostRules())
        self.handlers = [self._new_handler(number) for number in range(geometry.handlers)]
        self.clients: list[Client] = []

    def clock(self) -> int:
        return self.now_ns

    def new_reader(self, number: int = 0) -> Reader:
        """A reader with these settings: the first one, or the successor of a dead one."""
        return Reader(self.shared, number, self.handoff.far, self.settings, self.clock)

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
        near, far = tcp_pair() if tcp else socket.socketpair()
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
        with heap.left_alone():
            handler.start()
        return handler

    def run(self) -> None:
        """Until nothing moves any more, and nothing would: a server that spins fails here."""
        idle = 0
        for _ in rounds("it never comes to rest"):
            moved = self.read() + sum(self.handle(number) for number in range(len(self.handlers)))
            idle = 0 if moved or self.reader.clients.ready else idle + 1
            if idle == 3:
                break
        bells = {*self.shared.doorbells.readers}
        assert [event for event in self.reader.poll() if event[0] not in bells] == []

    def send(self, client: Client, data: bytes) -> None:
        """All of `data`, however long: the reader passes meanwhile, until it has taken it."""
        for _ in rounds("it does not read"):
            if client.ended or not (data or self.reader.clients.ready):
                break
            data = data[client.try_send(data) :]
            self.read()

    def drain(self, client: Client) -> None:
        """The client reads until nothing is left for it."""
        for _ in rounds("it does not send"):
            self.run()
            client.read()
            if not any(each.unsent for each in self.reader.clients.by_fd.values()):
                break

    def publish_level(self, name: str, level: int) -> None:
        """What the janitor does with the level of a caller."""
        row = self.shared.names.identity(name, self.now_ns)
        names, q = self.shared.names, self.shared.segment.q
        q[names.word(row, "level")], q[names.word(row, "looked")] = level, 1

    # -- looking -----------------------------------------------------------------------------------

    def count(self, counter: int) -> int:
        """A counter, over all processes."""
        return self.shared.columns.total(counter)

    def states(self) -> dict[str, int]:
        """How many slots are in each state but FREE."""
        counts = self.shared.table.recovery.count_states()
        del counts["FREE"]
        return dict(counts)

    def word(self, slot: int, field: str = "state") -> int:
        """A word of a slot."""
        at = self.shared.table.slot0 + slot * SLOT_WORDS + word_of(SLOT, field)
        return self.shared.segment.q[at]

    def row(self, field: str) -> int:
        """A word of the reader's process record."""
        return self.shared.row("reader")[field]

    def staged(self, data: bytes) -> tuple[Client, int]:
        """A client that sends `data`, and the slot of the one call that waits then."""
        client = self.connect()
        client.send(data)
        self.read()
        return client, self.only_slot()

    def only_slot(self) -> int:
        """The slot of the only call in flight."""
        assert len(self.reader.book.calls) == 1
        return next(iter(self.reader.book.calls))

    def flags(self, slot: int) -> int:
        """Those of its `call` word."""
        return self.word(slot, "call") >> states.FLAGS_SHIFT & 0xFF

    def charged(self, name: str) -> tuple[int, int]:
        """(cost, calls) of a caller, over all processes."""
        row = self.shared.names.identities.find(name)
        assert row > OTHERS
        columns = self.shared.columns
        return int(columns.cost_totals()[row]), int(columns.call_totals()[row])

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
        gc.enable()
