"""The children of the supervisor: each a place (role, number) that one process after another has.

A process has a pidfd, by which alone it is signalled and waited for (a process number may be
another's by then), and a channel, a SOCK_SEQPACKET pair of one message per send:

    child to supervisor   "ready" | "failed: MESSAGE" | answers of the janitor and the readers
    supervisor to child   orders, settings; its end closed for writing: "end now"
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...shm import states
from ...shm.columns import Counter
from ...shm.processes import ProcessRow
from ..port import Port
from .child import CRASHED, become_child, run_child
from .failures import one_line
from .lifecycle import ChildEvent, ChildState, child_following
from .restarts import Restarts
from .stacks import StackFile

log = logging.getLogger("faircall.supervisor")

SHORT_NAMES = {"reader": "read", "handler": "hand", "acceptor": "accept"}  # a name has 15 bytes
NUMBERED = ("reader", "handler")
MESSAGE_BYTES = 16 << 10  # longest message of a channel
READY, FAILED = b"ready", b"failed: "


@dataclass(slots=True, eq=False)
class Process:
    """One process that a child had or has. Times are monotonic ns, 0 = not yet.

    `doom` is why the supervisor kills it; `failure` what it said before it failed to start.
    """

    pid: int
    pidfd: int
    channel: socket.socket
    started_ns: int
    ready_ns: int = 0
    stopped_ns: int = 0
    suspect_ns: int = 0
    asked_call: int = 0  # the `current` of the call whose stack was asked for
    doom: str = ""
    failure: str = ""
    ending: bool = False  # it was told to end
    ran_before: int = 0  # calls that those before it at its place ran
    luck: float = field(default_factory=random.random)  # 0 to 1, of its limits' jitter
    untold: bytes = b""  # what it is to be told as soon as it listens

    def kill(self, why: str) -> None:
        """SIGKILL; a second time changes nothing."""
        self.doom = self.doom or why
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def end(self) -> None:
        """Tell it to end, by the end of its channel."""
        self.ending = True
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_WR)

    def send(self, message: bytes) -> bool:
        """A message to the child; False if it is gone or does not read."""
        try:
            self.channel.send(message, socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def tell(self, message: bytes) -> None:
        """Send the last of such messages, now or when it listens again (`tell_again`)."""
        self.untold = message
        self.tell_again()

    def tell_again(self) -> None:
        if self.untold and self.send(self.untold):
            self.untold = b""

    def receive(self) -> bytes | None:
        """The next message that has come; b"" at the end of the channel, None if there is none."""
        try:
            return self.channel.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:  # reset: it died with messages of ours unread
            return b""

    def exit(self) -> os.waitid_result | None:
        """The fence: what it ended with, once; None while it runs. After this it cannot write."""
        return os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)

    def note_stops(self, now_ns: int) -> None:
        """Ask the kernel whether it was stopped or continued since the last time."""
        options = os.WSTOPPED | os.WCONTINUED | os.WNOHANG
        with contextlib.suppress(ChildProcessError):
            while (change := os.waitid(os.P_PIDFD, self.pidfd, options)) is not None:
                self.stopped_ns = now_ns if change.si_code == os.CLD_STOPPED else 0

    def close(self) -> None:
        os.close(self.pidfd)
        self.channel.close()


@dataclass(slots=True, eq=False)
class Child:
    """A place for a process; `due_ns` is when the next one may start, while WAITING.

    `wanted`: a process is to be there. `on_trial`: it may fail to start, and another has its work.
    `group` is a handler's; `seat` is the index in it that its code is told: that of the one whose
    successor it is.
    """

    role: str
    number: int
    port: Port
    several_ports: bool = False
    state: ChildState = ChildState.WAITING
    process: Process | None = None
    due_ns: int = 0
    wanted: bool = True
    on_trial: bool = False
    group: int = field(init=False)
    is_express: bool = False
    seat: int = field(init=False)
    restarts: Restarts = field(init=False)
    stacks: StackFile | None = None

    def __post_init__(self) -> None:
        self.group, self.seat = 0, self.number
        if self.role == "handler":
            geometry = self.port.shared.geometry
            self.group = geometry.group_of(self.number)
            self.is_express = geometry.is_express(self.number)
            self.seat = self.port.shared.seat_of(self.number)
        self.restarts = Restarts(runs_user_code=self.runs_user_code)

    @property
    def runs_user_code(self) -> bool:
        return self.role == "handler"

    @property
    def row(self) -> ProcessRow:
        return self.port.shared.row(self.role, self.number)

    @property
    def name(self) -> str:
        """As shown by ps and top: `faircall-hand0`."""
        number = str(self.number) if self.role in NUMBERED else ""
        return f"faircall-{SHORT_NAMES.get(self.role, self.role)}{number}"

    @property
    def label(self) -> str:
        """For sentences: `handler 0`."""
        return f"{self.role} {self.number}" if self.role in NUMBERED else self.role

    @property
    def fields(self) -> dict[str, Any]:
        """For log lines: which child this is."""
        fields: dict[str, Any] = {"port": self.port.number} if self.several_ports else {}
        return fields | ({"index": self.number} if self.role in NUMBERED else {})

    def vacate(self) -> None:
        """No process is to be here: one that is claims no more, finishes what it has, ends."""
        self.wanted = self.on_trial = False
        self.row["leaving"] = 1
        if self.process is None:
            self.row["pid"] = 0
            return
        self.process.ending = True
        self.port.shared.doorbells.ring_handlers(1 << self.number)
        if self.state is not ChildState.READY:
            self.process.kill("it is not needed")

    def happen(self, event: ChildEvent) -> None:
        """The one place where the state changes; BadTransition."""
        self.state = child_following(self.state, event)
        log.debug("child changed", {"role": self.role, **self.fields, "state": self.state})


def fork(child: Child, keep: Iterable[int], run: Callable[[socket.socket], int]) -> None:
    """Give `child` a process that runs `run(channel)` to its exit status; OSError.

    It keeps the descriptors `keep` and its channel.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent, now_ns = os.getpid(), time.monotonic_ns()
    child.port.shared.expect(child.role, child.number)
    with warnings.catch_warnings():
        # From 3.12 on for threads that a numerical library keeps, and ends before a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        run_child(partial(_live, child, parent, [*keep, theirs.fileno()], run, theirs), _crashed)
    theirs.close()
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)  # it was not waited for: the number still is this child's
        os.waitpid(pid, 0)
        ours.close()
        raise
    ran = int(child.port.shared.columns.counters[child.row.index, Counter.RUN])
    child.process = Process(pid, pidfd, ours, now_ns, ran_before=ran)
    child.happen(ChildEvent.SPAWN)


def _live(
    child: Child,
    parent: int,
    keep: list[int],
    run: Callable[[socket.socket], int],
    channel: socket.socket,
) -> int:
    """In the new process."""
    become_child(parent, child.name, keep, runs_user_code=child.runs_user_code)
    return run(channel)


def _crashed(error: BaseException) -> int:
    log.error("child crashed", {"error": one_line(error)}, exc_info=error)
    return CRASHED


def bury(child: Child) -> None:
    """Forget the process of `child`, which was waited for."""
    assert child.process is not None
    child.process.close()
    child.process = None
    row = child.row  # whose writer is dead
    row["status"], row["connections"] = states.Life.STARTING, 0
    if not child.wanted:
        row["pid"] = 0
    child.happen(ChildEvent.DIE)
