"""What a call costs in the table while many callers wait: through all states, with N calls queued.

    python -m faircall.perf.waiting [--callers 10,10000] [--rounds 9]

Each of N callers has one call waiting; what is measured is one more call of one of them that is
queued, and the next one that is claimed, answered, collected and released. The rounds of all sizes
alternate; figures are CPU microseconds per call, the best round, and their ratio to the first size.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections import deque
from collections.abc import Sequence

from ..shm import states
from ..shm.layout import SLOT, Geometry, word_of
from ..shm.policy import QueuePolicy
from ..shm.rings import SLOT_WORDS
from ..shm.shared import Shared
from .rows import Row, table

CALLERS = (10, 10_000)
ROUNDS = 9
CALLS_PER_ROUND = 4_000
SPARE = 64  # slots beyond those that wait

_CALL, _PRINCIPAL = word_of(SLOT, "call"), word_of(SLOT, "principal")


class Crowd:
    """A table in which one call of each of `callers` waits, and goes on waiting."""

    def __init__(self, callers: int) -> None:
        slots = 1 << (callers + SPARE - 1).bit_length()
        geometry = Geometry(readers=1, handlers=1, slots=slots, identities=callers + 2)
        policy = QueuePolicy(weights=(1,), capacities=(slots,), max_principal=slots)
        self.shared = Shared(geometry, policy)
        self.table, self._out, self._tokens, self._verdicts = self.shared.table, [0], [0], [0]
        rows = [self.shared.names.identity(f"user-{number}", 0) for number in range(callers)]
        for slot in range(slots):
            own = self.table.slot0 + slot * SLOT_WORDS
            reference = self.shared.names.reference(rows[slot % callers])
            self.table.q[own + _PRINCIPAL] = reference
            self.table.q[own + _CALL] = states.call_word(0, cls=states.LONG)
        self._free = deque(range(callers, callers + SPARE))
        for slot in range(callers):
            self.table.enqueue([(slot, 0)], self._verdicts)

    def close(self) -> None:
        self.shared.doorbells.close()
        os.close(self.shared.segment.fd)

    def serve_next(self) -> None:
        """One call comes, the next one goes through all states."""
        table, out = self.table, self._out
        table.enqueue([(self._free.popleft(), 0)], self._verdicts)
        table.claim(0, 0, out, self._tokens)
        table.publish(0, [(out[0], self._tokens[0])])
        table.collect(0, out)
        table.release(out[0])
        self._free.append(out[0])


def rows(callers: Sequence[int] = CALLERS, rounds: int = ROUNDS) -> list[Row]:
    """A row for each number of callers."""
    crowds = [Crowd(number) for number in callers]
    best = [float("inf")] * len(crowds)
    gc.disable()
    for _ in range(rounds):
        for index, crowd in enumerate(crowds):
            best[index] = min(best[index], _round_us(crowd))
    gc.enable()
    for crowd in crowds:
        crowd.close()
    return [
        {"callers waiting": number, "us per call": us, "ratio": round(us / best[0], 3)}
        for number, us in zip(callers, best, strict=True)
    ]


def _round_us(crowd: Crowd) -> float:
    started_ns = time.thread_time_ns()
    for _ in range(CALLS_PER_ROUND):
        crowd.serve_next()
    return (time.thread_time_ns() - started_ns) / CALLS_PER_ROUND / 1e3


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.waiting")
    parser.add_argument("--callers", default=",".join(map(str, CALLERS)), help="numbers, by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of which the best counts")
    options = parser.parse_args(arguments)
    callers = [int(number) for number in options.callers.split(",")]
    print(table(rows(callers, options.rounds)))


if __name__ == "__main__":
    main()
