"""Handlers that have run long enough, or have grown, are followed by new ones.

    calls      `handlers.max-calls`, lowered by chance by up to `recycle-jitter` of it
    age        `handlers.max-age-s`, likewise
    memory     `handlers.max-rss-mib`: anonymous pages; segment and files are not a handler's own

Looked at every LOOK_NS; one handler at a time, the one that was started first. One whose successor
could not start serves on, and is not looked at for PAUSE_NS.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...shm.columns import Counter
from ..log import Long
from .children import Child, Process
from .lifecycle import ChildState
from .roster import Roster
from .succession import Succession

if TYPE_CHECKING:
    from ..config_processes import Handlers

log = logging.getLogger("faircall.supervisor")

LOOK_NS = 1_000_000_000
PAUSE_NS = 30_000_000_000
SECOND_NS, MIB = 1_000_000_000, 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a handler has done since its start, and what it holds."""

    calls: int
    age_ns: int
    own_bytes: int


def why_due(limits: Handlers, spent: Spent, luck: float) -> str:
    """Why a handler of that `luck` (0 to 1) is to be replaced; "" if it is not."""
    part = 1 - limits.recycle_jitter * luck
    if limits.max_calls and spent.calls >= limits.max_calls * part:
        return f"{spent.calls} calls (handlers.max-calls)"
    if limits.max_age_s and spent.age_ns >= limits.max_age_s * part * SECOND_NS:
        return f"{spent.age_ns // SECOND_NS} s old (handlers.max-age-s)"
    if limits.max_rss_mib and spent.own_bytes >= limits.max_rss_mib * MIB:
        return f"{spent.own_bytes // MIB} MiB (handlers.max-rss-mib)"
    return ""


def own_bytes(pid: int) -> int:
    """Resident memory of a process that no other has a part in; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * _PAGE_BYTES


class Recycling:
    """`tick` begins a succession when a handler is due."""

    def __init__(self, limits: Handlers, roster: Roster, succession: Succession) -> None:
        self.limits = limits
        self._roster, self._succession = roster, succession
        self._looked_ns = 0
        self._paused_ns: dict[Process, int] = {}  # until then

    def tick(self, now_ns: int) -> None:
        """Every so often, while the server runs."""
        limits = self.limits
        if not (limits.max_calls or limits.max_age_s or limits.max_rss_mib):
            return
        if now_ns - self._looked_ns < LOOK_NS or not self._succession.is_free:
            return
        self._looked_ns = now_ns
        ready = [
            (child, process)
            for child, process in self._roster.living("handler")
            if child.state is ChildState.READY and self._paused_ns.get(process, 0) <= now_ns
        ]
        for child, process in sorted(ready, key=lambda pair: pair[1].started_ns):
            if why := why_due(limits, self._spent(child, process, now_ns), process.luck):
                log.info("handler due", {**child.fields, "pid": process.pid, "why": Long(why)})
                ended = partial(self._ended, child, process, now_ns)
                self._succession.begin(child, ended)
                self._looked_ns = 0  # the next one follows at once
                return

    def _ended(self, child: Child, process: Process, begun_ns: int, why_not: str) -> None:
        self._paused_ns = {p: ns for p, ns in self._paused_ns.items() if ns > begun_ns}
        if why_not:
            self._paused_ns[process] = begun_ns + PAUSE_NS
            fields = {**child.fields, "pid": process.pid, "reason": Long(why_not)}
            log.error("handler not replaced", fields)
        else:
            log.info("handler replaced", {**child.fields, "pid": process.pid})

    def _spent(self, child: Child, process: Process, now_ns: int) -> Spent:
        ran = int(child.port.shared.columns.counters[child.row.index, Counter.RUN])
        own = own_bytes(process.pid) if self.limits.max_rss_mib else 0
        return Spent(ran - process.ran_before, now_ns - process.started_ns, own)
