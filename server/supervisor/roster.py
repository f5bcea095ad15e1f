"""All children of a daemon: they are started, heard, waited for, settled by the janitor, replaced.

The order after a death is the fence: the process is dead (pidfd), it is waited for, the janitor of
its port settles what it left, and only then its index is given to another.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..admin.link import ORDER as ORDERS
from ..admin.link import REFRESH as ASKS
from ..admin.link import REFRESHED as ANSWERS
from ..admin.link import SETTINGS as TELLS
from ..janitor.reaps import REAPED, REFRESH, REFRESHED, Reaps, parse_answer
from ..port import Port
from ..reader.cancel_order import CANCELLED
from .autopsy import cause_of_death, log_death, running_call, why_not_ready
from .children import FAILED, READY, Child, Process, bury, fork
from .failures import one_line
from .lifecycle import ChildEvent, ChildState
from .roles import Body, Duty, descriptors, perform
from .sources import Sources
from .stacks import StackFile
from .watch import SILENT

log = logging.getLogger("faircall.supervisor")

Reply = Callable[[dict[str, Any]], None]


class Roster:
    """`failed(child, message)` is told of each process that ended before it was ready.

    `refreshed(port, version)`: that port's janitor has put settings in force. `asked(reply)`: an
    administrator wants them read again, and `reply` takes the outcome. `ordered` maps verbs to what
    carries them out, with their parameters and `reply`. `cancelled(process, message)`: a reader has
    carried such an order out.
    """

    def __init__(
        self,
        ports: list[Port],
        bodies: Mapping[str, Body],
        sources: Sources,
        failed: Callable[[Child, str], None],
    ) -> None:
        self._ports, self._bodies, self._sources, self._failed = ports, bodies, sources, failed
        self.children = [child for port in ports for child in self._places(port)]
        self.reaps = {port.number: Reaps() for port in ports}
        self.stopping = False  # whoever ends now was meant to
        self.generation = 0  # of the service's code, that handlers import from now on
        self.tried: Callable[[Child, str], None] = failed  # told of those that are on trial
        self.refreshed: Callable[[int, int], None] = lambda port, version: None
        self.asked: Callable[[Reply], None] = lambda reply: None
        self.cancelled: Callable[[Process, bytes], None] = lambda process, message: None
        self.ordered: dict[str, Callable[[dict[str, Any], Reply], None]] = {}

    def _places(self, port: Port) -> Iterator[Child]:
        """The children of `port`, in the order in which they are started; admin is the first's, and
        without an address there is nothing to accept."""
        g = port.shared.geometry
        counts = {"janitor": 1, "admin": 1, "reader": g.readers, "handler": g.handlers}
        if port is not self._ports[0]:
            del counts["admin"]
        counts["acceptor"] = 1 if port.ipc.addresses else 0
        for role, count in counts.items():
            for number in range(count if role in self._bodies else 0):
                child = Child(role, number, port, several_ports=len(self._ports) > 1)
                child.stacks = StackFile() if role == "handler" else None
                if role == "handler" and port.shared.is_spare(number):
                    child.wanted = False  # until somebody needs a successor
                yield child

    # -- looking ---------------------------------------------------------------------------------

    def living(self, *roles: str) -> list[tuple[Child, Process]]:
        """The children of these roles (all, if none is named) that have a process."""
        return [
            (child, child.process)
            for child in self.children
            if child.process is not None and (not roles or child.role in roles)
        ]

    def all_ready(self, but: str = "") -> bool:
        """Whether every child that is wanted is ready, those of role `but` apart."""
        wanted = (c for c in self.children if c.wanted and c.role != but)
        return all(c.state is ChildState.READY for c in wanted)

    def note_stops(self, now_ns: int) -> None:
        """After SIGCHLD: who was stopped or continued."""
        for _, process in self.living():
            process.note_stops(now_ns)

    def kill_silent_janitors(self, now_ns: int) -> None:
        """Those that were given an order and do not answer it."""
        for child, process in self.living("janitor"):
            if self.reaps[child.port.number].silent(now_ns) and not process.doom:
                log.warning("killing child", {"role": "janitor", **child.fields, "why": SILENT})
                process.kill(SILENT)

    # -- starting --------------------------------------------------------------------------------

    def start(self, child: Child, now_ns: int) -> None:
        """Give `child` a process; if that is impossible now, it is tried again later."""
        if child.stacks:
            child.stacks.clear()
        try:
            fork(child, descriptors(child, self._ports), partial(self._live, child))
        except OSError as error:
            child.due_ns = now_ns + child.restarts.died(ready_ns=None, serving=False)
            self._cannot_start(child, f"{child.label}: no process can be made: {error.strerror}")
            return
        assert child.process is not None
        self._sources.add(child.process.pidfd, partial(self._ended, child))
        self._sources.add(child.process.channel.fileno(), partial(self._hear, child))

    def _live(self, child: Child, channel: socket.socket) -> int:
        """In the new process."""
        duty = Duty(child.role, child.number, child.port, self._ports, channel, stacks=child.stacks)
        duty.generation, duty.seat = self.generation, child.seat
        return perform(self._bodies[child.role], duty)

    # -- hearing ---------------------------------------------------------------------------------

    def _hear(self, child: Child) -> None:
        process = child.process
        assert process is not None
        while message := process.receive():
            if message == READY:
                process.ready_ns = time.monotonic_ns()
                child.happen(ChildEvent.REPORT)
                if child.role == "janitor":
                    self._begin_orders(child.port)
            elif message.startswith(FAILED):
                process.failure = message.removeprefix(FAILED).decode(errors="replace")
            elif message.startswith(REAPED) and child.role == "janitor":
                self._settled(child.port, message)
            elif message.startswith(REFRESHED) and child.role == "janitor":
                self._refreshed(child.port, int(message.removeprefix(REFRESHED)))
            elif message.startswith(ASKS) and child.role == "admin":
                self.asked(partial(_reply, process, message.removeprefix(ASKS)))
            elif message.startswith(CANCELLED) and child.role == "reader":
                self.cancelled(process, message)
            elif message.startswith(ORDERS) and child.role == "admin":
                self._carry_out(process, message.removeprefix(ORDERS))
        if message is not None:
            self._sources.remove(process.channel.fileno())

    def _carry_out(self, process: Process, order: bytes) -> None:
        """An administrator's order, "NUMBER VERB JSON"; whatever is wrong with it is answered."""
        number, verb, params = order.split(b" ", 2)
        reply = partial(_reply, process, number)
        try:
            self.ordered[verb.decode()](json.loads(params), reply)
        except Exception as error:
            log.error("order failed", {"order": verb.decode()}, exc_info=error)
            reply({"error": one_line(error)})

    def _settled(self, port: Port, message: bytes) -> None:
        """The janitor of `port` has answered: that place may be given to another process."""
        place, outcome = parse_answer(message)
        if not self.reaps[port.number].answered(place):
            return
        child = next(c for c in self.children if c.port is port and (c.role, c.number) == place)
        child.happen(ChildEvent.REAPED)
        log.debug("child reaped", {"role": child.role, **child.fields, **outcome})

    # -- other settings ------------------------------------------------------------------------

    def refresh(self, port: Port, version: int, settings: bytes) -> None:
        """Have the janitor of `port` put settings in force; `refreshed` is told when it has.

        One that cannot be given them is replaced: its successor is forked with them.
        """
        reaps = self.reaps[port.number]
        reaps.refresh(version, settings)
        self._order(port)
        for child, process in self.living("janitor"):
            ready = child.port is port and child.state is ChildState.READY
            if ready and not reaps.waiting[REFRESH, version]:
                process.end()

    def _begin_orders(self, port: Port) -> None:
        """The janitor of `port` is ready."""
        inherited = self.reaps[port.number].inherited()
        if inherited:
            self.refreshed(port.number, inherited)
        self._order(port)

    def _refreshed(self, port: Port, version: int) -> None:
        if self.reaps[port.number].answered((REFRESH, version)):
            self.refreshed(port.number, version)

    def tell_admin(self, settings: bytes) -> None:
        """What the daemon goes by from now on; an admin that cannot be told is replaced."""
        for _, process in self.living("admin"):
            if not process.send(TELLS + settings):
                process.end()

    def tell_readers(self, settings: bytes) -> None:
        """What they go by from now on; one that does not listen is told again at each tick."""
        for _, process in self.living("reader"):
            process.tell(settings)

    def tell_again(self) -> None:
        for _, process in self.living():
            process.tell_again()

    # -- burying ---------------------------------------------------------------------------------

    def _ended(self, child: Child) -> None:
        """Its pidfd is readable: wait for it, and see to what follows."""
        process = child.process
        assert process is not None
        self._hear(child)  # its last words
        result = process.exit()
        if result is None:
            return
        now_ns = time.monotonic_ns()
        is_handler = child.role == "handler"
        call = running_call(child.port.shared, child.number, now_ns) if is_handler else {}
        cause = cause_of_death(result)
        ready_ns = now_ns - process.ready_ns if process.ready_ns else None
        self._sources.remove(process.pidfd)
        self._sources.remove(process.channel.fileno())
        bury(child)
        expected = self.stopping or (process.ending and not call)
        delay_ns = child.restarts.died(ready_ns=ready_ns, serving=bool(call))
        child.due_ns = now_ns + delay_ns
        log_death(child, process, cause | call, expected)
        self._have_reaped(child, process)
        if ready_ns is None and not expected:
            self._cannot_start(child, why_not_ready(child, process, cause))

    def _cannot_start(self, child: Child, message: str) -> None:
        (self.tried if child.on_trial else self._failed)(child, message)

    def _have_reaped(self, child: Child, process: Process) -> None:
        """Have the janitor settle what the dead one left; its own successor begins by that."""
        reaps = self.reaps[child.port.number]
        if child.role == "janitor":
            child.happen(ChildEvent.REAPED)
            reaps.janitor_died(process.doom == SILENT)
        elif not self.stopping:
            reaps.add((child.role, child.number))
            self._order(child.port)

    def _order(self, port: Port) -> None:
        """Give the janitor of `port` its orders, if it is ready."""
        for child, process in self.living("janitor"):
            if child.port is port and child.state is ChildState.READY:
                self.reaps[port.number].send(process.send, time.monotonic_ns())

    def close(self) -> None:
        for child in self.children:
            if child.stacks:
                child.stacks.close()


def _reply(process: Process, number: bytes, answer: dict[str, Any]) -> None:
    """To an admin that may be gone by now."""
    process.send(ANSWERS + number + b" " + json.dumps(answer).encode())
