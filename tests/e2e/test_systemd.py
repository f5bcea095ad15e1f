"""What systemd is told and gives: a notify socket, and sockets that the daemon did not open."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.server.cli import main

from ..daemon import PROBE, Daemon, serving, session_members, until
from ..raw import Raw

pytestmark = pytest.mark.slow

# What systemd does between fork and exec: sockets from descriptor 3 on, and the process's number.
AS_SYSTEMD = """
import fcntl, os, sys
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1].split(",")]
for number, fd in enumerate(fds):
    os.dup2(fd, 3 + number, inheritable=True)
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"""


class Activated:
    """`said` collects the messages that the daemon sends."""

    def __init__(self, daemon: Daemon, notified: socket.socket) -> None:
        self.daemon, self._notified = daemon, notified
        self.said: list[str] = []

    def has_said(self, start: str) -> str:
        """The first line that begins so, once there is one."""

        def look() -> str:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.said += self._notified.recv(4096).decode().splitlines()
            return next((line for line in self.said if line.startswith(start)), "")

        return until(look, f"{start} in {self.said}")


@contextlib.contextmanager
def activation(folder: Path) -> Iterator[Activated]:
    """A daemon that was started as systemd does it; it may be stopped in the block."""
    with contextlib.ExitStack() as stack:
        tcp, unix, named = (
            stack.enter_context(contextlib.closing(socket.socket(family)))
            for family in (socket.AF_INET, socket.AF_UNIX, socket.AF_INET)
        )
        for sock, place in ((tcp, ("127.0.0.1", 0)), (named, ("127.0.0.1", 0))):
            sock.bind(place)
        unix.bind(str(folder / "x.sock"))
        for sock in (tcp, unix, named):
            sock.listen()
        port = tcp.getsockname()[1]
        name = f"@faircall-test-{os.getpid()}-{port}"
        notified = stack.enter_context(
            contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        )
        notified.bind("\0" + name[1:])
        notified.setblocking(False)
        fds = [sock.fileno() for sock in (tcp, unix, named)]
        daemon = stack.enter_context(
            serving(
                folder,
                PROBE,
                *("--handlers", "1", "--set", "shutdown.accept-ms=0"),
                binds=(f"tcp://127.0.0.1:{port}", f"unix:~/x.sock#{port}", f"systemd:rpc#{port}"),
                env={
                    "NOTIFY_SOCKET": name,
                    "WATCHDOG_USEC": "1500000",
                    "LISTEN_FDS": "3",
                    "LISTEN_FDNAMES": "a:b:rpc",
                },
                under=(sys.executable, "-c", AS_SYSTEMD, ",".join(map(str, fds))),
                pass_fds=fds,
            )
        )
        yield Activated(daemon, notified)
        os.unlink(folder / "x.sock")  # systemd's, not the daemon's


@pytest.fixture(scope="module")
def activated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Activated]:
    with activation(tmp_path_factory.mktemp("systemd")) as activated:
        yield activated


def test_ready_is_said_with_a_line_for_systemctl_status(activated: Activated) -> None:
    activated.has_said("READY=1")
    assert "1 of 1 handlers ready, 0 calls waiting" in activated.has_said("STATUS=tcp://127.0.0.1")
    activated.has_said("WATCHDOG=1")


def test_sockets_are_taken_from_systemd_where_they_match(activated: Activated) -> None:
    for address in activated.daemon.addresses:
        with contextlib.closing(Raw(address)) as raw:
            assert raw.call("echo", 1) == 1
    assert len(set(activated.daemon.addresses)) == 3
    assert not list(activated.daemon.folder.glob("x.sock.lock"))


def test_user_code_sees_nothing_of_it(activated: Activated) -> None:
    handler = activated.daemon.child("handler")
    environ = Path(f"/proc/{handler}/environ").read_bytes()  # as it was at the exec
    assert b"NOTIFY_SOCKET" in environ
    with contextlib.closing(Raw(activated.daemon.tcp)) as raw:
        assert raw.call("environment", "NOTIFY_SOCKET") is None
        assert raw.call("environment", "LISTEN_FDS") is None


def test_a_reload_is_told_with_its_moment(activated: Activated) -> None:
    activated.has_said("READY=1")
    activated.said.clear()
    before_us = time.monotonic_ns() // 1000
    assert main(["reload", "--to", str(activated.daemon.admin_socket)]) == 0
    activated.has_said("RELOADING=1")
    moment_us = int(activated.has_said("MONOTONIC_USEC=").partition("=")[2])
    assert before_us <= moment_us <= time.monotonic_ns() // 1000
    activated.has_said("READY=1")
    assert activated.said.index("RELOADING=1") < activated.said.index("READY=1")


def test_a_janitor_that_is_stopped_stops_the_signs_of_life(activated: Activated) -> None:
    """Nothing here but what decides: the janitor is replaced long before systemd would act."""
    from faircall.server.supervisor.notify import SILENT_NS, janitor_beats

    class Row(dict[str, int]):
        pass

    class Port:
        def __init__(self, beat_ns: int) -> None:
            self.shared = self
            self.beat_ns = beat_ns

        def row(self, role: str) -> Row:
            assert role == "janitor"
            return Row(status=1, beat_ns=self.beat_ns)

    assert janitor_beats(Port(10), 10 + SILENT_NS - 1)  # type: ignore[arg-type]
    assert not janitor_beats(Port(10), 10 + SILENT_NS)  # type: ignore[arg-type]


def test_the_end_is_told_and_what_connects_meanwhile_waits_for_the_next(tmp_path: Path) -> None:
    with activation(tmp_path) as activated:
        activated.has_said("READY=1")
        activated.daemon.send(signal.SIGTERM)
        activated.has_said("STOPPING=1")
        assert activated.daemon.wait() == 0
        for address in activated.daemon.addresses:
            Raw(address).close()


# As in a container: process 1, and a /dev/shm that is too small for the segment.
CONTAINER = (
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"),
    'mount -t tmpfs -o size=16m none /dev/shm && exec "$@"',
    "sh",
)


def can_unshare() -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run([*CONTAINER, "true"], capture_output=True).returncode == 0
    return False


@pytest.mark.skipif(not can_unshare(), reason="no namespaces here")
def test_as_process_1_it_ends_by_sigterm_and_buries_orphans(tmp_path: Path) -> None:
    args = ("--handlers", "1", "--set", "shutdown.accept-ms=0")
    with serving(tmp_path, PROBE, *args, under=CONTAINER) as daemon:
        assert daemon.events("starting")[0]["memory"] == "memfd"
        (init,) = (int(pid) for pid in children_of(daemon.pid))
        with contextlib.closing(Raw(daemon.tcp)) as raw:
            raw.call("leave_orphan")
        until(lambda: daemon.events("orphans buried"), "an orphan that is waited for")
        states = [Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in children_of(init)]
        assert "Z" not in states
        os.kill(init, signal.SIGTERM)
        assert daemon.wait() == 0
        assert daemon.events("stopped")[0]["status"] == 0
    assert not session_members(daemon.pid)


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_socket_that_systemd_did_not_pass_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from faircall.server.acceptor.inherited import Inherited
    from faircall.server.settings.bind_address import parse_bind_address
    from faircall.server.supervisor.failures import CannotStart

    assert str(parse_bind_address("fd://7#8020")) == "fd://7#8020"
    assert parse_bind_address("systemd:rpc").section is None
    with pytest.raises(ValueError, match="number after fd://"):
        parse_bind_address("fd://x")
    with pytest.raises(CannotStart, match=r"systemd:rpc: .* no socket of that name \(none\)"):
        Inherited().take(parse_bind_address("systemd:rpc"))
    with (tmp_path / "file").open("w") as file, pytest.raises(CannotStart, match="descriptor"):
        Inherited().take(parse_bind_address(f"fd://{file.fileno()}"))
    assert Inherited.of({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, 2).named == []
