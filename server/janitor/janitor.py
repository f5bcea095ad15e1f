"""The janitor process of one port: it settles what the dead left, and sweeps.

Orders come from the supervisor over the channel and are answered (`reaps`); between them it does
its chores, each in its own beat. All its work may be done twice, so a janitor that is killed at any
point is simply followed by another, which touches every lock before it says ready. No chore that
fails stops the others; a critical section that fails ends the process, as everywhere.
"""

from __future__ import annotations

import logging
import pickle
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...shm import states
from ...shm.columns import Counter
from ...shm.settlement import redo
from ...shm.shared import Shared
from ...workers.log_level import LogLevel
from ..costs import cost_rules
from ..port import policy_of
from ..throttle import follow_settings
from .arrivals import ArrivalAverages
from .dead_calls import DeadCalls
from .method_times import MethodTimes
from .reaps import REFRESHED, answer, order_of, refresh_of
from .sweep import Sweep

if TYPE_CHECKING:
    from ..port import Port

log = logging.getLogger("faircall.janitor")

BEAT_NS = 1_000_000_000  # longest sleep
SHORTEST_NS = 10_000_000  # sleep, however short the decay period is
AUDIT_EVERY_NS = 10_000_000_000
LONGEST_ORDER = 1 << 20  # bytes; settings are far shorter
COMPLAIN_EVERY_NS = 60_000_000_000  # about the same chore


class Janitor:
    """`do_work` obeys one order or waits for one, then does what is due; `run` repeats it."""

    def __init__(self, port: Port, channel: socket.socket) -> None:
        self._port, self.shared = port, port.shared
        self._channel = channel
        self._row = self.shared.row("janitor")
        self._log_level = LogLevel(port.shared)
        self._sweep = Sweep(port)
        self._dead_calls = DeadCalls(port.shared, cost_rules(port.ipc))
        self._chores: list[Callable[[int], object]] = [
            self._sweep.tick,
            MethodTimes(self.shared).tick,
            ArrivalAverages(self.shared).tick,
            self._audit,
        ]
        self._complained_ns: dict[str, int] = {}
        self._audited_ns = time.monotonic_ns()
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    def run(self) -> None:
        """Until the channel ends."""
        while self.do_work():
            pass

    def do_work(self) -> bool:
        """False when the supervisor has said the last word."""
        sleep_ns = min(BEAT_NS, self._sweep.next_ns() - time.monotonic_ns())
        if self._poll.poll(max(SHORTEST_NS, sleep_ns) / 1e6):
            message = self._channel.recv(LONGEST_ORDER)
            if not message:
                return False
            self._obey(message)
        now_ns = time.monotonic_ns()
        self._row["beat_ns"] = now_ns
        self._log_level.follow()
        for chore in self._chores:
            self._attempt(chore, now_ns)
        return True

    def _obey(self, message: bytes) -> None:
        """Carry an order out and answer it; one that fails stays unanswered, and is repeated."""
        try:
            if refresh := refresh_of(message):
                self._refresh(*refresh)
                return
            role, number = order_of(message)
            if role == "handler":
                self._dead_calls.count(number)
                self._dead_calls.charge(number, time.monotonic_ns())
            outcome = reap(self.shared, role, number)
        except Exception as error:
            order = message[:100].decode(errors="replace")
            log.error("order failed", {"order": order}, exc_info=error)
            return
        index = self._row.index
        self.shared.columns.add(index, Counter.REAPED)
        self.shared.columns.add(index, Counter.REQUEUED, outcome.get("requeued", 0))
        self._channel.send(answer((role, number), outcome))

    def _refresh(self, version: int, settings: bytes) -> None:
        """Go by other settings from now on; again, if need be: a second time changes nothing."""
        self._port.refresh(pickle.loads(settings))  # the supervisor's own
        self.put_in_force()
        self._channel.send(REFRESHED + str(version).encode())

    def put_in_force(self) -> None:
        """Policy, levels and rates by the settings of this process."""
        port = self._port
        self.shared.table.set_policy(policy_of(port.settings, port.ipc))
        self._sweep.refresh()
        follow_settings(self.shared, port.settings, time.monotonic_ns())
        self.shared.doorbells.ring_all()  # calls may go sooner now, or are to be limited

    def _attempt(self, chore: Callable[[int], object], now_ns: int) -> None:
        try:
            chore(now_ns)
        except Exception as error:
            name = getattr(chore, "__qualname__", repr(chore))
            if now_ns - self._complained_ns.get(name, -COMPLAIN_EVERY_NS) >= COMPLAIN_EVERY_NS:
                self._complained_ns[name] = now_ns
                log.error("chore failed", {"chore": name}, exc_info=error)

    def _audit(self, now_ns: int) -> None:
        """While debugging: every invariant of the segment, under its locks."""
        due = now_ns - self._audited_ns >= AUDIT_EVERY_NS
        if due and log.isEnabledFor(logging.DEBUG):
            self._audited_ns = now_ns
            for fault in self.shared.audit():
                log.error("audit failed", {"fault": fault})


def reap(shared: Shared, role: str, number: int) -> dict[str, int]:
    """Settle what a dead process left, which was waited for; how many calls became what.

    Whatever the role: its locks are taken once, and every doorbell rings.
    """
    shared.locks_touched()
    outcome: dict[str, int] = {}
    recovery = shared.table.recovery
    if role == "handler":
        reaped = recovery.reap_handler(number, time.monotonic_ns())
        outcome = {what: len(slots) for what, slots in reaped.items()}
    elif role == "reader":
        found = recovery.reap_reader(number)
        outcome = {state.lower(): count for state, count in found.items() if state != "FREE"}
    shared.doorbells.ring_all()  # whatever wake-up died with it
    return outcome


def run_janitor(port: Port, channel: socket.socket, report: Callable[[str], None]) -> int:
    """The life of a janitor process, after the fork: its exit status."""
    row = port.shared.row("janitor")
    row.enter()
    redo(port.shared.segment, row.index)
    touched = port.shared.locks_touched()
    port.shared.doorbells.ring_all()
    janitor = Janitor(port, channel)
    janitor.put_in_force()  # of a reload that the one before did not live to finish
    row["status"] = states.Life.READY
    report("ready")
    log.debug("janitor ready", {"port": port.number, "locks_recovered": touched})
    janitor.run()
    return 0
