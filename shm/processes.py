"""The processes of one server and the words that each keeps about itself.

Indices are fixed: readers first, then handlers, then acceptor, janitor and admin. Every word of a
process record has one writer, so it is read without a lock.
"""

from __future__ import annotations

import os

from . import states
from .layout import HEADER, PROCESS, WORD, Geometry, word_of
from .segment import Segment

ROLES = ("reader", "handler", "acceptor", "janitor", "admin")
_PROCESS_WORDS = PROCESS.itemsize // WORD
_P = {name: word_of(PROCESS, name) for name in PROCESS.names or ()}


def process_index(geometry: Geometry, role: str, number: int = 0) -> int:
    """The index of the `number`-th process of `role` in every per-process section."""
    if role == "reader":
        return number
    if role == "handler":
        return geometry.readers + number
    return geometry.readers + geometry.handlers + ROLES.index(role) - 2


class ProcessRow:
    """The record of one process; `row["beat_ns"]` reads a word, assigning stores it."""

    __slots__ = ("_base", "_q", "index")

    def __init__(self, segment: Segment, index: int) -> None:
        self.index = index
        self._q = segment.q
        self._base = segment.layout.processes // WORD + index * _PROCESS_WORDS

    def __getitem__(self, field: str) -> int:
        return self._q[self._base + _P[field]]

    def __setitem__(self, field: str, value: int) -> None:
        self._q[self._base + _P[field]] = value

    @property
    def is_vacant(self) -> bool:
        """Whether nobody is to be there: a handler's place that is kept for a successor."""
        return bool(self["leaving"]) and not self["pid"]

    @property
    def begun(self) -> tuple[int, int]:
        """(slot, its generation) of the call that a handler has begun; slot -1: of none."""
        current = self["current"]
        return (current & 0xFFFF_FFFF) - 1, current >> 32

    def word(self, field: str) -> int:
        """The index of `field` in the segment's words, for loops that store it often."""
        return self._base + _P[field]

    def prepare(self, now_ns: int) -> None:
        """A new process will have this index (by the supervisor, before the fork)."""
        self["incarnation"] += 1
        for field in ("pid", "current", "current_deadline_ns", "sleeping", "connections", "handed"):
            self[field] = 0
        self["quiet"] = self["leaving"] = self["serving"] = 0
        self["status"] = states.Life.STARTING
        self["started_ns"] = self["beat_ns"] = now_ns

    def enter(self) -> None:
        """This process has the index from now on."""
        self["pid"] = os.getpid()


class Generation:
    """Which code of the service all handlers have; the supervisor stores it.

    A handler of a later one may be at work already: the others do not know what is new in it.
    """

    def __init__(self, segment: Segment) -> None:
        self._q = segment.q
        self._word = segment.word(segment.layout.header, HEADER, "generation")

    def get(self) -> int:
        return self._q[self._word]

    def set(self, generation: int) -> None:
        self._q[self._word] = generation


class LoggedLevel:
    """The least level that is logged, as `logging` numbers it; the supervisor stores it."""

    def __init__(self, segment: Segment) -> None:
        self._q = segment.q
        self._word = segment.word(segment.layout.header, HEADER, "log_level")

    def get(self) -> int:
        """0 before the first `set`."""
        return self._q[self._word]

    def set(self, level: int) -> None:
        self._q[self._word] = level


class ServerPhase:
    """The phase that the supervisor publishes for all; see `states.Phase`."""

    def __init__(self, segment: Segment) -> None:
        self._q = segment.q
        self._phase = segment.word(segment.layout.header, HEADER, "phase")
        self._since = segment.word(segment.layout.header, HEADER, "phase_ns")

    def get(self) -> states.Phase:
        return states.Phase(self._q[self._phase])

    @property
    def since_ns(self) -> int:
        """When it was entered."""
        return self._q[self._since]

    def reached(self, phase: states.Phase) -> bool:
        """Whether the server is in `phase` or in a later one."""
        return self._q[self._phase] >= phase

    def set(self, phase: states.Phase, now_ns: int) -> None:
        self._q[self._since] = now_ns
        self._q[self._phase] = phase
