"""A supervisor in a process of its own, over a port whose memory the test sees, too.

Its readers are a stand-in that only adopts connections: the test itself is reader 0 of the table,
so that it can put calls into the queue and collect their answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import textwrap
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from faircall.server.config import Settings
from faircall.server.log import setup_logging
from faircall.server.port import Port, open_ports
from faircall.server.supervisor.roles import Body, bodies_for
from faircall.server.supervisor.supervisor import Supervisor
from faircall.shm import states
from faircall.shm.layout import SLOT, word_of
from faircall.shm.pages import REQUEST
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.states import Life, Phase, Status

from ..conftest import Load
from .stand_in import run_stand_in, until

FAULTY = f"{Path(__file__).with_name('faulty_service.py')}:service"
SMALL = """
[server]
bind = ["tcp://127.0.0.1:0"]
readers = 1
[handlers]
count = 2
hang-grace-ms = 100
[ipc]
callqueue.total-capacity = 64
[limits]
segment-payload-bytes = 1048576
max-message-bytes = 65536
identities = 64
methods = 32
[shutdown]
accept-ms = 0
grace-ms = 20000
"""
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}


class Daemon:
    """One that runs; `call` waits for the answer, `log` reads what was logged."""

    def __init__(self, ports: list[Port], pid: int, log: Path) -> None:
        self.ports, self.port, self.shared = ports, ports[0], ports[0].shared
        self.pid, self._log = pid, log
        self.pidfd = os.pidfd_open(pid)
        self.status: int | None = None
        self._slots = iter(range(self.shared.geometry.slots))

    # -- processes -------------------------------------------------------------------------------

    def phase(self) -> Phase:
        return self.shared.phase.get()

    def wait_for(self, phase: Phase) -> None:
        until(lambda: self.phase() >= phase or self.has_ended(), phase.name)
        assert self.phase() == phase, self._log.read_text()

    def pid_of(self, role: str, number: int = 0) -> int:
        return self.shared.row(role, number)["pid"]

    def is_ready(self, role: str, number: int = 0) -> bool:
        row = self.shared.row(role, number)
        return bool(row["pid"]) and row["status"] == Life.READY

    def replaced(self, role: str, number: int, before: int) -> int:
        """The process number of the successor of `before`, once it is ready."""
        until(lambda: self.pid_of(role, number) not in (0, before), f"another {role}")
        until(lambda: self.is_ready(role, number), f"{role} ready")
        return self.pid_of(role, number)

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(word) for word in path.read_text().split()]

    def send(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self.pidfd, number)

    def place(self) -> tuple[str, int]:
        """Host and port at which it said it listens."""
        (line, *_) = until(lambda: self.log("ready"), "where it listens")
        host, _, port = line["address"].removeprefix("tcp://").rpartition(":")
        return host, int(port)

    def has_ended(self) -> bool:
        if self.status is None:
            done = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG)
            if done is not None:
                exited = done.si_code == os.CLD_EXITED
                self.status = done.si_status if exited else -done.si_status
        return self.status is not None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end: the exit status."""
        self.send(number)
        until(self.has_ended, "the end")
        assert self.status is not None
        return self.status

    def log(self, event: str = "") -> list[dict[str, Any]]:
        """What was logged so far, of one event or in all."""
        written = self._log.read_text().splitlines(keepends=True)  # the last one perhaps in part
        lines = [json.loads(line) for line in written if line.endswith("\n")]
        return [line for line in lines if event in ("", line["event"])]

    # -- calls -----------------------------------------------------------------------------------

    def offer(self, method: str, *params: Any, user: str = "alice", timeout_s: float = 20) -> int:
        """Put a call into the queue, as a reader does; its slot."""
        shared, slot = self.shared, next(self._slots)
        q, own = shared.segment.q, shared.table.slot0 + slot * SLOT_WORDS
        body, now_ns = orjson.dumps(params), time.monotonic_ns()
        row = shared.names.methods.find(method)
        flags = int(shared.names.methods.rows["flags"][row])
        place = shared.pages.take(slot, REQUEST, len(body))
        shared.pages.write(place, body)
        q[own + _S["identity"]] = q[own + _S["principal"]] = shared.names.reference(
            shared.names.identity(user, now_ns)
        )
        q[own + _S["call"]] = states.call_word(row, flags=flags)
        q[own + _S["arrived_ns"]], q[own + _S["reserved"]] = now_ns, 0
        q[own + _S["deadline_ns"]] = now_ns + int(timeout_s * 1e9)
        q[own + _S["request"]], q[own + _S["answer_page"]] = len(body) << 32 | place, 0
        verdicts = [0]
        shared.doorbells.ring_handlers(shared.table.enqueue([(slot, 0)], verdicts))
        assert verdicts == [0]
        return slot

    def answer(self, slot: int) -> tuple[Status, Any]:
        """Wait until the call in `slot`, the only one in flight, is answered."""
        shared, out = self.shared, [0]
        until(lambda: shared.table.collect(0, out), "an answer")
        assert out == [slot]
        q, own = shared.segment.q, shared.table.slot0 + slot * SLOT_WORDS
        word = q[own + _S["answer"]]
        length, place = word >> 8 & 0xFFFF_FFFF, q[own + _S["answer_page"]]
        body = shared.pages.read(place, length) if length else b"null"
        shared.table.release(slot)
        return Status(word & 0xFF), orjson.loads(body)

    def call(self, method: str, *params: Any, **how: Any) -> tuple[Status, Any]:
        return self.answer(self.offer(method, *params, **how))


@contextlib.contextmanager
def daemon(
    settings: Settings,
    log: Path,
    bodies: Mapping[str, Body] | None = None,
    target: str = FAULTY,
) -> Iterator[Daemon]:
    """A supervisor with the given bodies instead of its own; killed at the end if it still runs."""
    chosen = bodies_for(target) | {"reader": run_stand_in} | dict(bodies or {})
    if "admin" not in (bodies or {}):
        del chosen["admin"]
    ports = open_ports(settings)
    log.touch()
    running = Daemon(ports, _fork(settings, ports, chosen, log), log)
    for port in ports:
        for listener in port.listeners:  # ours; the daemon has its own copies
            listener.socket.close()
    try:
        yield running
    finally:
        if not running.has_ended():
            running.send(signal.SIGKILL)
            until(running.has_ended)
        os.close(running.pidfd)
        for port in ports:
            port.listeners = []
            port.close()


def _fork(settings: Settings, ports: list[Port], bodies: dict[str, Body], log: Path) -> int:
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test runner
        pid = os.fork()
    if pid:
        return pid
    status = 99
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
            setup_logging("json", "debug")
            status = Supervisor(settings, ports, bodies).run()
    finally:
        os._exit(status)


def service(folder: Path, text: str) -> str:
    """A module with `text` that has a service; what `faircall serve` would be given."""
    path = folder / "svc.py"
    path.write_text("from faircall import Service\nservice = Service()\n" + textwrap.dedent(text))
    return f"{path}:service"


class Start(Protocol):
    """A daemon that runs; in its configuration each `old` text is replaced by the `new` one.

    Without `waits` it may still be starting; `how` goes to `daemon`.
    """

    def __call__(self, *replaced: tuple[str, str], waits: bool = True, **how: Any) -> Daemon: ...


@contextlib.contextmanager
def starting(load: Load, log: Path) -> Iterator[Start]:
    """Starts daemons, whose end is seen to."""
    with contextlib.ExitStack() as stack:

        def start(*replaced: tuple[str, str], waits: bool = True, **how: Any) -> Daemon:
            text = SMALL
            for old, new in replaced:
                assert old in text
                text = text.replace(old, new)
            running = stack.enter_context(daemon(load(text), log, **how))
            if waits:
                running.wait_for(Phase.RUNNING)
            return running

        yield start
