"""A handler stepped by hand, and in a few words what a reader does with its calls.

slot = desk.put("echo", b"[1]"); desk.work(); desk.collect() == {slot: (Status.RESULT, b"1")}
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable

from faircall.shm import states
from faircall.shm.layout import METHOD, SLOT, WORD, Geometry, word_of
from faircall.shm.offers import ACCEPTED
from faircall.shm.pages import REQUEST
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.shared import Shared
from faircall.workers.context import Call, Worker, current_call
from faircall.workers.handler import Handler, HandlerLimits
from faircall.workers.service import Service

from .. import heap

MS = 1_000_000
MAX_ANSWER_BYTES = 150_000
GEOMETRY = Geometry(
    readers=2,
    handlers=2,
    slots=16,
    levels=4,
    turns=64,
    identities=8,
    methods=16,
    limiters=2,
    small_pages=32,
    large_pages=4,
)
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}


class Methods:
    """A service whose methods tell what they saw and do what the test wants."""

    def __init__(self) -> None:
        self.service = Service()
        self.seen: list[Call] = []
        self.workers: list[Worker] = []
        self.desk: Desk
        self._declare(self.service)

    def _declare(self, service: Service) -> None:
        @service.on_start
        def begin(worker: Worker) -> None:
            self.workers.append(worker)

        @service.method(idempotent=True)
        def echo(x: object = None) -> object:
            return x

        @service.method
        def fail() -> None:
            raise ValueError("no")

        @service.method(timeout=2.5)
        def spend(ms: float) -> str:
            self.desk.now_ns += int(ms * MS)
            return "spent"

        @service.method(timeout=2.5)
        def spend_and_check(ms: float) -> None:
            self.desk.now_ns += int(ms * MS)
            current_call().check()

        @service.method
        def pause() -> str:
            """Something happens while it runs."""
            self.seen.append(current_call())
            self.desk.deed()
            return "paused"

        @service.method(idempotent=True)
        def end() -> None:
            raise SystemExit(3)

        @service.method
        def end_once() -> None:
            raise SystemExit(3)


class Desk:
    """Slots are used once, from the first on; `now_ns` is the time."""

    def __init__(self, service: Service, limits: HandlerLimits | None = None) -> None:
        self.now_ns = 1_000_000 * MS
        self.shared = Shared(GEOMETRY, QueuePolicy(max_principal=100))
        self.table, self.q = self.shared.table, self.shared.segment.q
        self.service, self.limits = service, limits or HandlerLimits()
        self.user = self.shared.names.identity("anna", 0)
        self.woken = 0  # handlers, by the last call
        self._used = [0] * GEOMETRY.readers
        self.handlers = [self.new_handler(number) for number in range(GEOMETRY.handlers)]

    def clock(self) -> int:
        return self.now_ns

    def new_handler(self, number: int) -> Handler:
        """The first one of this number, or the successor of a dead one."""
        self.shared.expect("handler", number)
        handler = Handler(self.shared, number, self.service, self.limits, self.clock)
        with heap.left_alone():
            handler.start()
        return handler

    def put(
        self,
        method: str,
        request: bytes = b"",
        *,
        flags: int = 0,
        timeout_ms: float = 1000,
        level: int = 0,
        reader: int = 0,
    ) -> int:
        """A call is queued: its slot."""
        row = self.shared.names.methods.find(method)
        slot = reader * GEOMETRY.slots + self._used[reader]
        self._used[reader] += 1
        flags |= int(self.shared.names.methods.rows[row]["flags"])
        first = self.shared.pages.take(slot, REQUEST, len(request))
        self.shared.pages.write(first, request)
        self.set(slot, "identity", self.shared.names.reference(self.user))
        self.set(slot, "principal", self.shared.names.reference(self.user))
        self.set(slot, "call", states.call_word(row, flags=flags, level=level))
        self.set(slot, "arrived_ns", self.now_ns)
        self.set(slot, "deadline_ns", self.now_ns + int(timeout_ms * MS))
        self.set(slot, "reserved", self.expected_ns(method))
        self.set(slot, "request", len(request) << 32 | first)
        self.set(slot, "answer_page", 0)
        verdicts = [-1]
        self.woken = self.table.enqueue([(slot, level)], verdicts)
        assert verdicts == [ACCEPTED]
        return slot

    def work(self, number: int = 0) -> int:
        return self.handlers[number].do_work()

    def reap(self, number: int = 0) -> dict[str, list[int]]:
        """The handler has ended in the middle of something; another takes its place."""
        outcome = self.table.recovery.reap_handler(number)
        self.handlers[number] = self.new_handler(number)
        return outcome

    def collect(self, reader: int = 0) -> dict[int, tuple[int, bytes]]:
        """(status, body) of each call that is answered."""
        slots = [0] * GEOMETRY.slots
        count = self.table.collect(reader, slots)
        return {slot: self._answer(slot) for slot in slots[:count]}

    def withdraw(self, slot: int) -> None:
        """Nobody waits any more."""
        self.table.withdraw(slot // GEOMETRY.slots, [slot], [-1])

    def during(self, deed: Callable[[], object]) -> None:
        """What the method `pause` does while it runs."""
        self.deed = deed

    def expected_ns(self, method: str) -> int:
        row = self.shared.names.methods.find(method)
        at = self.shared.segment.layout.methods + row * METHOD.itemsize
        return self.q[at // WORD + word_of(METHOD, "expected_ns")]

    def expect(self, method: str, ns: int) -> None:
        """It is known to take so long."""
        row = self.shared.names.methods.find(method)
        self.shared.names.methods.rows[row]["expected_ns"] = ns

    def get(self, slot: int, field: str) -> int:
        return self.q[self.table.slot0 + slot * SLOT_WORDS + _S[field]]

    def set(self, slot: int, field: str, value: int) -> None:
        self.q[self.table.slot0 + slot * SLOT_WORDS + _S[field]] = value

    def close(self) -> None:
        self.shared.doorbells.close()
        os.close(self.shared.segment.fd)
        gc.enable()

    def _answer(self, slot: int) -> tuple[int, bytes]:
        word = self.get(slot, "answer")
        length = word >> 8 & 0xFFFF_FFFF
        place = self.get(slot, "answer_page")
        return word & 0xFF, self.shared.pages.read(place, length) if length else b""
