"""One handler gets a successor: the new one is ready before the old one stops claiming.

    begin      the empty place of its group is wanted: the supervisor gives it a process
    ready      the old one's place is wanted no more: it claims no more, finishes what it has, ends
    reaped     its place is the empty one now; `done("")`

One at a time in the whole daemon, so each group of a port's handlers needs one place more than it
has handlers, and another one if it has express handlers. If the successor cannot start, its place
is empty again, the old one goes on as if nothing had been, and `done` is told why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from .children import Child, Process
from .lifecycle import ChildState
from .roster import Roster

log = logging.getLogger("faircall.supervisor")

Done = Callable[[str], None]  # told why it failed; "" if it did not


@dataclass(slots=True)
class Change:
    """`old`, whose process was `process`, is to be followed by `successor`."""

    old: Child
    process: Process | None
    successor: Child
    done: Done
    leaving: bool = False


class Succession:
    """`begin` starts one, `step` goes on with it at each turn of the supervisor."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._change: Change | None = None
        roster.tried = self._failed

    @property
    def is_free(self) -> bool:
        return self._change is None

    def begin(self, old: Child, done: Done) -> None:
        """Replace the process of the handler `old`; only while this `is_free`."""
        assert self._change is None
        spare = next(
            child
            for child in self._roster.children
            if child.port is old.port
            and child.role == old.role
            and (child.group, child.is_express) == (old.group, old.is_express)
            and not child.wanted
        )
        spare.wanted = spare.on_trial = True
        spare.due_ns, spare.seat = time.monotonic_ns(), old.seat
        self._change = Change(old, old.process, spare, done)

    def step(self) -> None:
        """See how far it is."""
        change = self._change
        if change is None:
            return
        if not change.leaving and change.successor.state is ChildState.READY:
            change.leaving, change.successor.on_trial = True, False
            change.old.vacate()
        if change.leaving and change.old.state is ChildState.WAITING:
            change.old.vacate()  # its row says that nobody is there
            self._end("")

    def abandon(self) -> None:
        """The server ends: nobody needs a successor."""
        change = self._change
        if change is not None and not change.leaving:
            change.successor.vacate()
            self._end("the server stops")

    def _failed(self, successor: Child, message: str) -> None:
        """The successor has ended before it was ready."""
        successor.vacate()
        self._end(message)

    def _end(self, why: str) -> None:
        change, self._change = self._change, None
        if change is not None:
            change.done(why)
