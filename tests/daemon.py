"""`faircall serve` in a process of its own, and what must be gone when it has ended.

    with serving(folder, PROBE, "--handlers", "2") as daemon:
        Raw(daemon.tcp).call("pid")

Everything that it makes lies in `folder`; its log is JSON, one event a line. A daemon that is still
there at the end of the block has to end by SIGINT with status 0, and whichever way it ends, no
process of its session, no name in /dev/shm and no socket may be left.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from faircall.server.admin.client import fetch_stats

T = TypeVar("T")

PATIENCE_S = 60.0  # no test is about how long something takes: this is for what never comes
SERVICES = Path(__file__).with_name("services")
CONFORMANCE = SERVICES / "conformance.py"
PROBE = SERVICES / "probe.py"
LEDGER = SERVICES / "ledger.py"
NAMES = {"read": "reader", "hand": "handler", "accept": "acceptor", "janito": "janitor"}
TCP = "tcp://127.0.0.1:0"


def until(condition: Callable[[], T], what: object = "") -> T:
    """The first true value of `condition`, looked at again and again; fails after PATIENCE_S."""
    gives_up = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < gives_up, f"waited {PATIENCE_S} s for {what or condition}"
        select.select([], [], [], 0.005)
    return value


class Daemon:
    """One that was started; `wait_ready` and `wait` are the two ways to go on."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, listens: int) -> None:
        self.process, self.pid, self.folder = process, process.pid, folder
        self.addresses: list[str] = []  # in the order of the binds
        self._listens = listens

    # -- what it says ----------------------------------------------------------------------------

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """What was logged so far: all events, or those of one name."""
        found = []
        for line in self.log.splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                found.append(json.loads(line))
        return [event for event in found if name in ("", event["event"])]

    def event(self, name: str, **fields: object) -> dict[str, Any]:
        """The first event of that name with these fields, once there is one."""

        def look() -> dict[str, Any] | None:
            return next((e for e in self.events(name) if fields.items() <= e.items()), None)

        found = until(look, f"{name} {fields} in {self.folder / 'log'}")
        assert found is not None
        return found

    def stats(self) -> dict[str, Any]:
        """What `faircall stats --json` prints."""
        return fetch_stats(str(self.admin_socket), PATIENCE_S)

    def totals(self) -> dict[str, Any]:
        """The counters of the first port."""
        totals: dict[str, Any] = self.stats()["ports"][0]["totals"]
        return totals

    # -- where it is -----------------------------------------------------------------------------

    @property
    def admin_socket(self) -> Path:
        return self.folder / "admin.sock"

    @property
    def tcp(self) -> str:
        """Its first TCP address."""
        return next(address for address in self.addresses if address.startswith("tcp:"))

    @property
    def unix(self) -> str:
        """Its first Unix socket."""
        return next(address for address in self.addresses if address.startswith("unix:"))

    @property
    def tcp_port(self) -> int:
        return int(self.tcp.rpartition(":")[2])

    def children(self) -> dict[str, list[int]]:
        """Process numbers by role, in the order of their numbers; from the kernel, not from it."""
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        listing = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        for pid in map(int, listing.split()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                name = Path(f"/proc/{pid}/comm").read_text().strip().removeprefix("faircall-")
                role = name.rstrip("0123456789")
                found[NAMES.get(role, role)].append((name, pid))
        return {role: [pid for _, pid in sorted(pids)] for role, pids in found.items()}

    def child(self, role: str, number: int = 0) -> int:
        """The process number of that child, once it has one."""
        return until(lambda: self.children().get(role, [])[number : number + 1], role)[0]

    # -- how it goes on --------------------------------------------------------------------------

    def wait_ready(self) -> None:
        """Until it has told all its addresses."""

        def look() -> bool:
            self.addresses = [event["address"] for event in self.events("ready")]
            return len(self.addresses) == self._listens or self.process.poll() is not None

        until(look, "ready")
        assert self.process.poll() is None, self.log

    def send(self, number: signal.Signals) -> None:
        """To the daemon; SIGINT to all of its processes, as Ctrl-C does it."""
        if number == signal.SIGINT:
            os.killpg(self.pid, number)
        else:
            self.process.send_signal(number)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self) -> int:
        """Its exit status; minus the signal that killed it."""
        return self.process.wait(PATIENCE_S)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        return self.wait()

    def assert_nothing_is_left(self) -> None:
        """No process, no shared memory; no socket either, unless it was killed itself."""
        until(lambda: not session_members(self.pid), f"the end of session {self.pid}")
        assert not [name for name in os.listdir("/dev/shm") if f"-{self.pid}-" in name]
        if self.process.returncode != -signal.SIGKILL:
            assert not [path for path in self.folder.rglob("*") if path.is_socket()]
            assert not list(self.folder.rglob("*.lock"))


def session_members(session: int) -> list[int]:
    """The living processes of a session."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, found = stat.read_text().rpartition(")")[2].split()[:4]
            if int(found) == session and state not in "ZX":
                members.append(int(stat.parent.name))
    return members


def launch(
    folder: Path,
    target: Path | str,
    *args: str,
    binds: Sequence[str] = (TCP,),
    addresses: int = 0,
    env: Mapping[str, str] | None = None,
    under: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
) -> Daemon:
    """Start one in a session of its own and do not wait. A "~" in `binds` is its folder.

    `addresses`: how many it is to have, if that is not told by `binds`. `under` is a command that
    runs it, with the descriptors `pass_fds`.
    """
    folder.mkdir(exist_ok=True)
    outer = {k: v for k, v in os.environ.items() if not k.startswith("FAIRCALL_")}
    command = [
        *under,
        sys.executable,
        "-m",
        "faircall",
        "serve",
        str(target),
        "--log-format",
        "json",
    ]
    for bind in binds:
        command += ["--bind", bind.replace("~", str(folder))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *args],
            cwd=folder,
            env=outer | {"FAIRCALL_ADMIN": str(folder / "admin.sock")} | dict(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    return Daemon(process, folder, addresses or len(binds))


@contextlib.contextmanager
def started(folder: Path, target: Path | str, *args: str, **how: Any) -> Iterator[Daemon]:
    """One that may do what it likes in the block; it is killed at its end if it still runs."""
    daemon = launch(folder, target, *args, **how)
    try:
        yield daemon
    finally:
        if not daemon.has_ended():
            daemon.send(signal.SIGKILL)
        daemon.wait()
    daemon.assert_nothing_is_left()


@contextlib.contextmanager
def serving(folder: Path, target: Path | str, *args: str, **how: Any) -> Iterator[Daemon]:
    """One that is ready at the start of the block, and ends well with it or within it."""
    with started(folder, target, *args, **how) as daemon:
        daemon.wait_ready()
        yield daemon
        if not daemon.has_ended():
            assert daemon.stop(signal.SIGINT) == 0, daemon.log
