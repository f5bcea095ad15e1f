"""The supervisor: it makes what the processes share, starts and watches them, and ends them.

It takes no lock in the segment once children exist, and runs no user code: so nothing that one of
them does can stop it. Its life cycle is the table in `lifecycle`; `_enter` is the one place where
the phase changes. What it does is driven by pidfds, channels, queued signals and one tick.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...shm.states import Phase
from ..log import Long
from ..port import Port
from ..throttle import sourced_lines
from ..unserved import unserved
from . import ending
from .cancels import Cancels
from .children import Child
from .failures import CANNOT_START, CUT_OFF
from .host import Host
from .lifecycle import WANTED, ChildState, Event, following
from .notify import Notifier
from .orphans import INIT, bury_orphans
from .rate_orders import RateOrders
from .recycling import Recycling
from .reload import Reloads
from .roles import Body
from .roster import Roster
from .signals import SignalQueue
from .sources import Sources
from .succession import Succession
from .watch import TICK_NS, Watch
from .workers_reload import WorkersReload

if TYPE_CHECKING:
    from ..config import Settings
    from .roster import Reply

log = logging.getLogger("faircall.supervisor")

MS = 1_000_000
DRAIN_TICK_NS = 20 * MS  # how often a draining server is asked whether it is quiet
QUIET_CHECKS = 2  # in a row: what a reader says may be a pass old

_STOPPING = (Event.TERM, Event.INT, Event.HOST_GONE)
_EVENTS = {signal.SIGTERM: Event.TERM, signal.SIGINT: Event.INT, signal.SIGHUP: Event.HUP}


class Supervisor:
    """`run` serves until the end; `on_ready` is told the addresses once all children are ready.

    `host` is the program that embeds the daemon, if one does: it stops at once when that is gone.
    """

    def __init__(
        self,
        settings: Settings,
        ports: list[Port],
        bodies: Mapping[str, Body],
        on_ready: Callable[[list[str]], None] = lambda addresses: None,
        read_again: Callable[[], Settings] | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self.phase = Phase.STARTING
        self.status = 0
        self._settings, self._ports, self._on_ready = settings, ports, on_ready
        self._notifier = notifier or Notifier()
        self._sources, self._signals = Sources(), SignalQueue()
        self._roster = Roster(ports, bodies, self._sources, self._child_failed)
        self.host = Host(
            self._sources,
            self._roster,
            ports[0],
            on_gone=lambda: self._happen(Event.HOST_GONE),
            are_replaced=lambda: "reader" in WANTED[self.phase],
        )
        self._watch = Watch(settings)
        self._reloads = Reloads(settings, ports, self._roster, read_again, self._adopt)
        self._roster.refreshed, self._roster.asked = self._reloads.answered, self._reload
        rates = RateOrders(self._reloads)
        self._cancels = Cancels(self._roster)
        self._succession = Succession(self._roster)
        self._recycling = Recycling(settings.handlers, self._roster, self._succession)
        self._workers = WorkersReload(ports, self._roster, self._succession)
        self._roster.cancelled = self._cancels.answered
        self._roster.ordered = {
            "set_rate": rates.set,
            "remove_rate": rates.remove,
            "cancel": self._cancels.begin,
            "reload_workers": self._workers.begin,
        }
        self._entered_ns = 0
        self._because = Event.READY
        self._quiet = 0  # checks in a row that found nothing in flight
        self._enters = {
            Phase.RUNNING: self._run,
            Phase.LEAVING: self._leave,
            Phase.DRAINING: self._drain,
            Phase.STOPPED: self._stop,
        }
        self._checks = {
            Phase.STARTING: self._check_start,
            Phase.LEAVING: self._check_leave,
            Phase.DRAINING: self._check_drain,
            Phase.STOPPED: self._check_stop,
        }

    def run(self) -> int:
        """The daemon's life, from the first fork to the last wait: its exit status."""
        self._signals.install()
        self._sources.add(self._signals.fd, self._take_signals)
        self._publish(Phase.STARTING)
        try:
            while self.phase != Phase.STOPPED or self._roster.living():
                self._turn()
        finally:
            self._signals.restore()
            self._sources.close()
            self._roster.close()
        log.info("stopped", {"status": self.status})
        return self.status

    def _turn(self) -> None:
        """Start who is due, wait, see to what has come and to what is time."""
        self._succession.step()
        self._workers.step()
        now_ns = time.monotonic_ns()
        for child in self._roster.children:
            if child.due_ns <= now_ns and self._is_wanted(child):
                self._roster.start(child, now_ns)
        self._sources.wait(max(0, self._wake_ns(now_ns) - now_ns) / 1e9)
        now_ns = time.monotonic_ns()
        if now_ns - self._watch.ticked_ns >= TICK_NS:
            self._tick(now_ns)
        check = self._checks.get(self.phase)
        if check:
            check(now_ns)

    def _is_wanted(self, child: Child) -> bool:
        """Whether a process is missing there; the first acceptors wait for all others."""
        if child.state is not ChildState.WAITING or not child.wanted:
            return False
        if child.role not in WANTED[self.phase]:
            return False
        first = child.role == "acceptor" and self.phase == Phase.STARTING
        return not first or self._roster.all_ready(but="acceptor")

    def _wake_ns(self, now_ns: int) -> int:
        """When to look again, at the latest."""
        due = [c.due_ns for c in self._roster.children if self._is_wanted(c)]
        tick_ns = DRAIN_TICK_NS if self.phase == Phase.DRAINING else TICK_NS
        return min([*due, self._watch.ticked_ns + TICK_NS, now_ns + tick_ns])

    def _tick(self, now_ns: int) -> None:
        if self._watch.tick(self._roster.children, now_ns):
            log.warning("woke up late", {"amnesty": True})
            for reaps in self._roster.reaps.values():
                reaps.forgive(now_ns)
        self._roster.kill_silent_janitors(now_ns)
        self._roster.tell_again()
        self._cancels.tick(now_ns)
        if os.getpid() == INIT:
            bury_orphans({process.pid for _, process in self._roster.living()})
        self._notifier.tick(self._ports, now_ns, running=self.phase == Phase.RUNNING)
        if self.phase == Phase.RUNNING and not self._workers.is_busy:
            self._recycling.tick(now_ns)

    # -- events ----------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        for number in self._signals.take():
            if number == signal.SIGCHLD:
                self._roster.note_stops(time.monotonic_ns())
            else:
                self._happen(_EVENTS[number])

    def _happen(self, event: Event) -> None:
        """One event, by the table; BadTransition if it does not have it."""
        if event is Event.HUP:
            self._reload()
        self._enter(following(self.phase, event), event)

    def _reload(self, reply: Reply = lambda answer: None) -> None:
        """Read the settings again; systemd is told when that begins and ends."""

        def ended(answer: dict[str, Any]) -> None:
            if self.phase == Phase.RUNNING:
                self._notifier.ready(self._ports)
            reply(answer)

        if self.phase == Phase.RUNNING:
            self._notifier.reloading()
        self._reloads.begin(ended)

    def _enter(self, phase: Phase, event: Event) -> None:
        """The one place where the phase changes."""
        before, self.phase, self._because = self.phase, phase, event
        if phase == before and event not in _STOPPING:
            return
        log.info("phase", {"from": before, "to": phase, "because": event})
        self._publish(phase)
        self._workers.is_possible = phase == Phase.RUNNING
        if phase > Phase.RUNNING:
            self._notifier.stopping(phase)
            self._workers.give_up()
            self._succession.abandon()
        self._enters[phase]()

    def _adopt(self, settings: Settings) -> None:
        """From now on the daemon goes by these."""
        if settings.log.level != self._settings.log.level:
            level = logging.getLevelName(settings.log.level.upper())
            logging.getLogger().setLevel(level)
            for port in self._ports:
                port.shared.logged.set(level)
        before, self._settings = self._settings, settings
        if settings.throttle != before.throttle and self.phase is Phase.RUNNING:
            self._warn_of_rates()
        self._watch.configure(settings)
        self._recycling.limits = settings.handlers

    def _publish(self, phase: Phase) -> None:
        self._entered_ns = time.monotonic_ns()
        for port in self._ports:
            port.shared.phase.set(phase, self._entered_ns)
            port.shared.doorbells.ring_all()

    def _child_failed(self, child: Child, message: str) -> None:
        """A child could not start: before the first ready the server ends, later it tries again."""
        if self.phase == Phase.STARTING:
            self.status = CANNOT_START
            log.error("cannot start", {"reason": Long(message)})
            self._happen(Event.FAILED)
        elif self.phase != Phase.STOPPED:
            fields = {"role": child.role, **child.fields, "reason": Long(message)}
            log.error("child cannot start", fields)

    # -- entering a phase ------------------------------------------------------------------------

    def _run(self) -> None:
        addresses = [address for port in self._ports for address in port.addresses()]
        self._warn_of_rates()
        for address in addresses:
            log.info("ready", {"address": address})
        self._on_ready(addresses)
        self._notifier.ready(self._ports)

    def _warn_of_rates(self) -> None:
        """Handlers have told by now which methods there are."""
        methods = {name for port in self._ports for name in port.methods()}
        rates = sourced_lines(self._settings.throttle, self._settings.set_rates.lines)
        for found in unserved(rates, methods):
            log.warning("rate for what is not served", found._asdict())

    def _leave(self) -> None:
        """Nothing yet: /readyz fails by the phase alone."""

    def _drain(self) -> None:
        """No new connections; readers refuse new calls."""
        self._stop_listening()
        ending.end_acceptors(self._roster)

    def _stop(self) -> None:
        """Everybody ends; a second time at once.

        Calls that a grace period cuts off are as configured; those that a signal does are not.
        """
        self._stop_listening()
        at_once = self._roster.stopping or self._because is Event.HOST_GONE
        cut_off = ending.end_all(self._roster, at_once=at_once)
        if cut_off and self._because in (Event.TERM, Event.INT):
            self.status = self.status or CUT_OFF

    def _stop_listening(self) -> None:
        for port in self._ports:
            port.stop_listening()

    # -- checking whether a phase is over --------------------------------------------------------

    def _check_start(self, now_ns: int) -> None:
        if self._roster.all_ready():
            self._happen(Event.READY)

    def _check_leave(self, now_ns: int) -> None:
        if now_ns - self._entered_ns >= self._settings.shutdown.accept_ms * MS:
            self._happen(Event.ACCEPTED_ENOUGH)

    def _check_drain(self, now_ns: int) -> None:
        passed_ns = now_ns - self._entered_ns
        quiet = ending.acceptors_ended(self._roster, passed_ns) and ending.is_quiet(self._roster)
        self._quiet = self._quiet + 1 if quiet else 0
        if self._quiet >= QUIET_CHECKS:
            self._happen(Event.QUIET)
        elif passed_ns >= self._settings.shutdown.grace_ms * MS:
            self._happen(Event.GRACE_OVER)

    def _check_stop(self, now_ns: int) -> None:
        if now_ns - self._entered_ns >= ending.END_NS:
            for _, process in self._roster.living():
                process.kill("it did not end")
