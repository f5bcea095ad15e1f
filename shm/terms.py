"""What a limiter is about, and the limits that it has: keys and terms of the rows of `limiters`.

kind        which one                       caller          rows
SERVER      0                               all             one
SERVICE     a hash of its name              all             one for each
RESOURCE    a hash of its name              all             one for each
METHOD      the method's row                all             one for each
CALLER      0                               one             one for each, while there is room
PAIR        the method's row                one             one for each, while there is room
OTHERS      0 = CALLER, or the method + 1   all the others  those who found the table full
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..scheduling import dispatch_rate as rate
from .layout import DIMENSIONS

CALLS, BYTES, HANDLER = range(DIMENSIONS)
EACH = range(DIMENSIONS)
KIND_SHIFT, PROCESS_SHIFT = 56, 44
_PROCESS, _NUMBER = (1 << KIND_SHIFT - PROCESS_SHIFT) - 1, (1 << PROCESS_SHIFT) - 1

# Flags of a row; the method of LEARNS stands above them: row + 1 << LEARNS_SHIFT.
PACED, DRY_RUN, REQUEST, ANSWER, SETTLES, LEARNS, RELATIVE, PLAIN = (1 << bit for bit in range(8))
LEARNS_SHIFT = 32
REASONS = ("calls", "bytes", "handler", "running", "order", "refused")
RUNNING_CAP, IN_ORDER, REFUSED = 3, 4, 5


class Kind(enum.IntEnum):
    """What a row limits."""

    SERVER = 1
    SERVICE = 2
    RESOURCE = 3
    METHOD = 4
    CALLER = 5
    PAIR = 6
    OTHERS = 7


def key_of(kind: Kind, number: int = 0, process: int = 0) -> int:
    """The key word of a row; `process`: the reader + 1 where each has budgets of its own."""
    return kind << KIND_SHIFT | process << PROCESS_SHIFT | number & _NUMBER


def kind_of(key: int) -> Kind:
    return Kind(key >> KIND_SHIFT)


def number_of(key: int) -> int:
    return key & _NUMBER


def process_of(key: int) -> int:
    return key >> PROCESS_SHIFT & _PROCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The limits of a row: -1 none, 0 blocked, or a number per `period_ns`, per dimension."""

    limits: tuple[int, int, int] = (rate.NONE, rate.NONE, rate.NONE)
    period_ns: int = 1_000_000_000
    running: int = 0  # 0 = no cap
    debt_periods: int | None = None
    flags: int = 0

    @property
    def settles(self) -> bool:
        """Whether what a call used is known only at its end."""
        counts_answers = self.flags & ANSWER and self.limits[BYTES] != rate.NONE
        limits_handlers = self.limits[HANDLER] != rate.NONE
        return bool(self.running > 0 or counts_answers or limits_handlers or self.flags & LEARNS)

    @property
    def is_plain(self) -> bool:
        """Whether it is a number of calls per period and nothing else (`plain_charges`)."""
        calls, *others = self.limits
        special = self.flags & (PACED | DRY_RUN | RELATIVE) or self.debt_periods is not None
        return calls > 0 and set(others) == {rate.NONE} and not special and not self.settles
