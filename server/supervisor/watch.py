"""The watch over living children: who hangs, is stopped or is silent is killed, and so replaced.

    stopped     for 250 ms (SIGSTOP, or the terminal's): it may hold a lock that all others need
    hung        a handler whose call is past its deadline by `handlers.hang-grace-ms`; its stack is
                asked for at one tick, logged at the next, and then it is killed
    silent      no heartbeat for 10 s, and still none 2 s later
    not ready   within `handlers.startup-timeout-s`

Everything is read without a lock. When the supervisor's own tick is late, the machine or all of us
were suspended: then nobody is to blame for being late, and all clocks here begin anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..log import Lines
from .autopsy import running_call
from .children import Child, Process
from .lifecycle import ChildState
from .stacks import ASK

if TYPE_CHECKING:
    from ..config import Settings

log = logging.getLogger("faircall.supervisor")

TICK_NS = 400_000_000  # between two looks: an idle supervisor is to cost next to nothing
LATE_NS = 1_000_000_000  # a tick that late was not ours to make
AMNESTY_NS = 3_000_000_000
STOPPED_NS = 250_000_000
SILENT_NS = 10_000_000_000
SUSPECT_NS = 2_000_000_000
BEATING = ("reader", "handler", "acceptor", "janitor")

STOPPED, HUNG, SILENT = "stopped", "hung", "silent"
TIMEOUT_KEY = "handlers.startup-timeout-s"


class Watch:
    """`tick` looks at every child; at most four times a second."""

    def __init__(self, settings: Settings) -> None:
        self.configure(settings)
        self._amnesty_until_ns = 0
        self.ticked_ns = time.monotonic_ns()

    def configure(self, settings: Settings) -> None:
        """Go by these from now on."""
        self._hang_grace_ns = settings.handlers.hang_grace_ms * 1_000_000
        self._startup_s = settings.handlers.startup_timeout_s

    def tick(self, children: Iterable[Child], now_ns: int) -> bool:
        """Kill who has to be; whether this tick was so late that there is an amnesty."""
        late = now_ns - self.ticked_ns > TICK_NS + LATE_NS
        self.ticked_ns = now_ns
        if late:
            self._amnesty_until_ns = now_ns + AMNESTY_NS
        for child in children:
            process = child.process
            if process is None or process.doom:
                continue
            if late:
                _forgive(process, now_ns)
            self._look(child, process, now_ns)
        return late

    def _look(self, child: Child, process: Process, now_ns: int) -> None:
        if process.stopped_ns and now_ns - process.stopped_ns > STOPPED_NS:
            self._kill(child, process, STOPPED)
        elif child.state is ChildState.STARTING:
            if now_ns - process.started_ns > self._startup_s * 1_000_000_000:
                self._kill(child, process, f"{self._startup_s} s are over ({TIMEOUT_KEY})")
        elif now_ns < self._amnesty_until_ns:
            return
        elif child.role == "handler" and child.row["current"]:
            self._look_at_call(child, process, now_ns)
        elif child.role in BEATING:
            self._look_at_beat(child, process, now_ns)

    def _look_at_call(self, child: Child, process: Process, now_ns: int) -> None:
        row, process.suspect_ns = child.row, 0
        current, deadline_ns = row["current"], row["current_deadline_ns"]
        late_ns = now_ns - deadline_ns
        if not current or row["current"] != current:
            return  # another call by now: the deadline may be that of either
        if not deadline_ns or late_ns < self._hang_grace_ns:
            return
        if process.asked_call != current:
            process.asked_call = current
            if child.stacks:
                child.stacks.clear()
                process.signal(ASK)
            return
        call = running_call(child.port.shared, child.number, now_ns)
        stack = Lines(child.stacks.take() if child.stacks else "")
        fields = {"pid": process.pid, **call, "late_ms": late_ns // 1_000_000, "stack": stack}
        log.warning("handler hung", child.fields | fields)
        process.kill(HUNG)

    def _look_at_beat(self, child: Child, process: Process, now_ns: int) -> None:
        if now_ns - child.row["beat_ns"] < SILENT_NS:
            process.suspect_ns = 0
        elif not process.suspect_ns:
            process.suspect_ns = now_ns
        elif now_ns - process.suspect_ns > SUSPECT_NS:
            self._kill(child, process, SILENT)

    def _kill(self, child: Child, process: Process, why: str) -> None:
        fields = {"role": child.role, **child.fields, "pid": process.pid, "why": why}
        log.warning("killing child", fields)
        process.kill(why)


def _forgive(process: Process, now_ns: int) -> None:
    process.suspect_ns = process.asked_call = 0
    if process.stopped_ns:
        process.stopped_ns = now_ns
