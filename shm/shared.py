"""Everything that the processes of one server share: made once, before the first fork."""

from __future__ import annotations

import time

from .columns import Columns
from .doorbells import Doorbells
from .layout import Geometry
from .names import Names
from .policy import QueuePolicy
from .processes import LoggedLevel, ProcessRow, ServerPhase, process_index
from .rates import Rates
from .segment import Segment
from .table import CallTable


class Shared:
    """The segment and what lives in it; children inherit the mapping, the views and the bells."""

    def __init__(self, geometry: Geometry, policy: QueuePolicy) -> None:
        self.geometry = geometry
        self.segment = Segment.create(geometry)
        self.table = CallTable(self.segment)
        self.names = Names(self.segment)
        self.pages = self.table.pages
        self.columns = Columns(self.segment)
        self.phase = ServerPhase(self.segment)
        self.logged = LoggedLevel(self.segment)
        self.rates = Rates(self.segment)
        self.doorbells = Doorbells(geometry)
        self.table.initialise(policy)
        self.names.initialise()
        with self.pages.lock:
            self.pages.rebuild()

    def index(self, role: str, number: int = 0) -> int:
        """The process index of the `number`-th process of `role`."""
        return process_index(self.geometry, role, number)

    def row(self, role: str, number: int = 0) -> ProcessRow:
        """The record of the `number`-th process of `role`."""
        return ProcessRow(self.segment, self.index(role, number))

    def expect(self, role: str, number: int) -> ProcessRow:
        """Prepare the record for a process about to be forked."""
        row = self.row(role, number)
        row.prepare(time.monotonic_ns())
        return row

    def locks_touched(self) -> int:
        """Take every lock once, so that a dead owner's index is rebuilt; how many had one."""
        return self.table.recovery.touch_locks() + self.names.lock.touch()

    def audit(self) -> list[str]:
        """Every invariant of the segment; [] when sound."""
        return self.table.recovery.audit() + self.pages.audit()
