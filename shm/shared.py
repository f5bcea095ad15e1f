"""Everything that the processes of one server share: made once, before the first fork."""

from __future__ import annotations

import secrets
import time

from .columns import Columns
from .doorbells import Doorbells
from .histograms import Histograms
from .layout import Geometry
from .names import Names
from .policy import QueuePolicy
from .processes import Generation, LoggedLevel, ProcessRow, ServerPhase, process_index
from .rates import Rates
from .segment import Segment
from .states import GENERATION_SHIFT
from .table import CallTable
from .top_callers import TopCallers


class Shared:
    """The segment and what lives in it; children inherit the mapping, the views and the bells.

    `spares` of the places for ordinary handlers of each group, and of those for express handlers
    where there are any, its last ones, stay empty, but while one of its handlers is being replaced.
    """

    def __init__(self, geometry: Geometry, policy: QueuePolicy, spares: int = 0) -> None:
        self.geometry = geometry
        self._spares = spares
        groups = range(geometry.groups)
        self.working = sum(map(self.working_of, groups))  # ordinary handlers to be at work
        self.express = sum(map(self.express_of, groups))  # and express handlers
        self.name = secrets.token_hex(8)  # of this server, for its own processes to know it by
        self.segment = Segment.create(geometry)
        self.table = CallTable(self.segment)
        self.names = Names(self.segment)
        self.pages = self.table.pages
        self.columns = Columns(self.segment)
        self.histograms = Histograms(self.segment)
        self.phase = ServerPhase(self.segment)
        self.logged = LoggedLevel(self.segment)
        self.generation = Generation(self.segment)
        self.rates = Rates(self.segment)
        self.top_callers = TopCallers(self.segment)
        self.doorbells = Doorbells(geometry)
        for number in range(geometry.handlers):
            if self.is_spare(number):
                self.row("handler", number)["leaving"] = 1
        self.table.initialise(policy)
        self.names.initialise()
        with self.pages.lock:
            self.pages.rebuild()

    def name_of(self, group: int) -> str:
        """By which the processes of `group` know their server: calls that its handlers make to
        their own group may wait for themselves, those to others only if these make some as well."""
        return f"{self.name}.{group}" if group else self.name

    def working_of(self, group: int) -> int:
        """Ordinary handlers of `group` that are to be at work."""
        return len(self.geometry.ordinary_of(group)) - self._spares

    def express_of(self, group: int) -> int:
        """Express handlers of `group` that are to be at work."""
        return max(0, len(self.geometry.express_of(group)) - self._spares)

    def is_spare(self, handler: int) -> bool:
        """Whether that place is empty at the start, for a successor."""
        group, geometry = self.geometry.group_of(handler), self.geometry
        express, ordinary = geometry.express_of(group), geometry.ordinary_of(group)
        places = express if handler in express else ordinary
        return handler >= places.stop - self._spares

    def seat_of(self, handler: int) -> int:
        """Its index in its group, of those at work: express handlers come last."""
        group, geometry = self.geometry.group_of(handler), self.geometry
        express, ordinary = geometry.express_of(group), geometry.ordinary_of(group)
        if handler in express:
            return self.working_of(group) + handler - express.start
        return handler - ordinary.start

    def index(self, role: str, number: int = 0) -> int:
        """The process index of the `number`-th process of `role`."""
        return process_index(self.geometry, role, number)

    def row(self, role: str, number: int = 0) -> ProcessRow:
        """The record of the `number`-th process of `role`."""
        return ProcessRow(self.segment, self.index(role, number))

    def running_slot(self, handler: int) -> int:
        """Where the call is that `handler` runs at this moment; -1 if it runs none."""
        slot, generation = self.row("handler", handler).begun
        if not 0 <= slot < self.geometry.calls:
            return -1
        is_over = int(self.table.words[slot, 0]) >> GENERATION_SHIFT != generation
        return -1 if is_over else slot

    @property
    def runs_any(self) -> bool:
        """Whether some handler is in a call at this moment."""
        return any(self.running_slot(handler) >= 0 for handler in range(self.geometry.handlers))

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
