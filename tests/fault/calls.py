"""Calls as a test wants them, and the ledger of what happened to each."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np

from faircall.shm import states

MOST_TAGS = 1024


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a test wants it; `asks` and `answers` are lengths in bytes."""

    tag: int
    level: int = 0
    who: int = 1  # row of the principal
    cls: int = states.LONG
    idempotent: bool = False
    limiters: tuple[int, ...] = ()
    asks: int = 16
    answers: int = 16
    expected_ns: int = 0
    counted: bool = False  # its last limiter counts what waits: without a backlog it goes free
    together: bool = False  # it is of the method whose calls are run together

    @property
    def request(self) -> bytes:
        return (b"ask %d " % self.tag).ljust(self.asks, b"?")[: self.asks]

    @property
    def answer(self) -> bytes:
        return (b"answer %d " % self.tag).ljust(self.answers, b"!")[: self.answers]


class Ledger:
    """Who did what, by tag, in memory that the victims share.

    `runs` and `answers` count, `status` is the last answer's, `order` numbers the first runs,
    `level` is where the call waited before it ran first.
    """

    def __init__(self) -> None:
        self.words = np.frombuffer(mmap.mmap(-1, MOST_TAGS * 5 * 8), dtype=np.uint64)
        self.runs, self.answers, self.status, self.order, self.level = self.words.reshape(5, -1)
        self.bytes = self.words.data.cast("B")

    def ran(self, tag: int, level: int) -> None:
        if not self.runs[tag]:
            self.level[tag] = level
            self.order[tag] = self.order.max() + 1
        self.runs[tag] += 1

    def answered(self, tag: int, status: int) -> None:
        self.status[tag] = status
        self.answers[tag] += 1

    def run_order(self, level: int) -> list[int]:
        """Tags in the order of their first runs from `level`."""
        ran = np.flatnonzero((self.order > 0) & (self.level == level))
        return [int(tag) for tag in ran[np.argsort(self.order[ran])]]
