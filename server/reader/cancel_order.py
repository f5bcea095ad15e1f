"""An administrator's order to cancel calls: which ones, and what became of them.

supervisor to reader   the order, pickled
reader to supervisor   "cancelled NUMBER WAITING RUNNING"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

CANCELLED = b"cancelled "


@dataclass(frozen=True, slots=True)
class CancelOrder:
    """Those of `user`; with this caller context and of this method, unless these are None."""

    number: int
    user: str
    context: str | None = None
    method: str | None = None


class Cancelled(NamedTuple):
    """How many waited and are dropped, and how many run on for nobody."""

    waiting: int
    running: int


def answer_of(order: CancelOrder, found: Cancelled) -> bytes:
    return CANCELLED + f"{order.number} {found.waiting} {found.running}".encode()


def parse_answer(message: bytes) -> tuple[int, Cancelled]:
    """The number of the order, and what it says."""
    number, waiting, running = map(int, message.removeprefix(CANCELLED).split())
    return number, Cancelled(waiting, running)
