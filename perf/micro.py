"""What single operations cost in one process, without contention: shared memory, bells, wire.

    python -m faircall.perf.micro [--rounds 7] [--only pages]

Each figure is CPU time in microseconds per call, page or name: the best of several rounds, for
others on the machine only ever add to it.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Iterator

from ..shm import states
from ..shm.layout import SLOT, Geometry, word_of
from ..shm.pages import REQUEST
from ..shm.policy import QueuePolicy
from ..shm.rings import SLOT_WORDS
from ..shm.shared import Shared
from . import micro_wire
from .measurement import Measurement, best_us

GEOMETRY = Geometry(readers=1, handlers=2, slots=2048, identities=4096)
POLICY = QueuePolicy(capacities=(2048,) * 4, max_principal=2048)
USERS = 50
WAITING = 1000  # calls that a rebuild finds
LARGE_BYTES = 1 << 20

_CALL, _PRINCIPAL = word_of(SLOT, "call"), word_of(SLOT, "principal")


class Bench:
    """A server's shared memory, with calls staged in every slot."""

    def __init__(self) -> None:
        self.shared = Shared(GEOMETRY, POLICY)
        self.table, self.pages, self.names = self.shared.table, self.shared.pages, self.shared.names
        self.histograms = self.shared.histograms.of_handler(0)
        self.out, self.tokens = [0] * 64, [0] * 64
        self.verdicts = [0] * GEOMETRY.slots
        rows = [self.names.identity(f"user-{number}", 0) for number in range(USERS)]
        for slot in range(GEOMETRY.slots):
            own = self.table.slot0 + slot * SLOT_WORDS
            self.table.q[own + _PRINCIPAL] = self.names.reference(rows[slot % USERS])
            self.table.q[own + _CALL] = states.call_word(0, cls=slot % 2)

    def close(self) -> None:
        self.shared.doorbells.close()
        os.close(self.shared.segment.fd)

    # -- calls -----------------------------------------------------------------------------------

    def offer(self, count: int, first: int = 0) -> None:
        calls = [(slot, slot % 4) for slot in range(first, first + count)]
        self.table.enqueue(calls, self.verdicts)

    def serve(self, batch: int) -> None:
        """A batch of calls goes through all states."""
        self.offer(batch)
        for _ in range(batch):
            self.table.claim(0, 0, self.out, self.tokens)
            self.table.publish(0, [(self.out[0], self.tokens[0])])
        taken = self.table.collect(0, self.out)
        for index in range(taken):
            self.table.release(self.out[index])

    def offer_and_withdraw(self) -> None:
        self.offer(1)
        self.table.withdraw(0, (0,), self.verdicts)

    def look_in_vain(self) -> None:
        self.table.claim(0, 0, self.out, self.tokens)

    def rebuild(self) -> None:
        with self.table.queue_lock:
            self.table.recovery.rebuild_queue()

    # -- locks, pages, names -----------------------------------------------------------------------

    def lock(self) -> None:
        with self.table.queue_lock:
            pass

    def page(self, length: int) -> None:
        place = self.pages.take(0, REQUEST, length)
        generation = self.table.q[self.table.slot0] >> states.GENERATION_SHIFT
        self.pages.give_back([(place, 0, generation)])

    def rebuild_pages(self) -> None:
        with self.pages.lock:
            self.pages.rebuild()

    def known(self) -> None:
        self.names.reference(self.names.identity("user-7", 1))

    def charge(self) -> None:
        self.shared.columns.charge(0, 7, 1)

    def time(self) -> None:
        self.histograms.ran(0, 0, 1, 1_000_000, 1_000_000)


def measurements(bench: Bench) -> Iterator[Measurement]:
    """Everything that is measured, in the order of the table; later ones leave calls waiting."""
    pages, body = bench.pages, bytes(4096)
    yield Measurement("mutex: lock and unlock", 1, bench.lock)
    yield Measurement("call: through all states, alone", 1, lambda: bench.serve(1))
    yield Measurement("call: through all states, 16 at once", 16, lambda: bench.serve(16))
    yield Measurement("call: enqueue and withdraw", 1, bench.offer_and_withdraw)
    yield Measurement("call: a claim that finds nothing", 1, bench.look_in_vain)
    yield Measurement("pages: take and give back 4 KiB", 1, lambda: bench.page(4096))
    yield Measurement("pages: take and give back 1 MiB", 1, lambda: bench.page(LARGE_BYTES))
    place = pages.take(1, REQUEST, 4096)
    yield Measurement("pages: write 4 KiB", 1, lambda: pages.write(place, body))
    yield Measurement("pages: read 4 KiB", 1, lambda: pages.read(place, 4096))
    yield Measurement("pages: stamp a warm page", 1, lambda: pages.restamp(place, 1, 1))
    yield Measurement("pages: rebuild", 1, bench.rebuild_pages)
    yield Measurement("names: find a known name", 1, bench.known)
    yield Measurement("columns: charge", 1, bench.charge)
    yield Measurement("histograms: a call's wait and service", 1, bench.time)
    yield from micro_wire.measurements(bench.shared.doorbells)
    bench.offer(WAITING)
    yield Measurement(f"queue: rebuild with {WAITING} calls", 1, bench.rebuild)
    yield Measurement(f"queue: audit with {WAITING} calls", 1, bench.table.recovery.audit)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.micro")
    parser.add_argument("--rounds", type=int, default=7, help="of which the best counts")
    parser.add_argument("--only", default="", help="what begins with this")
    options = parser.parse_args(arguments)
    bench = Bench()
    gc.disable()
    for measurement in measurements(bench):
        if measurement.name.startswith(options.only):
            print(f"{measurement.name:<40}{best_us(measurement, options.rounds):>12.2f} us")
    gc.enable()
    bench.close()


if __name__ == "__main__":
    main()
