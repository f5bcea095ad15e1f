"""The admin process and its socket: whose it is, and what becomes of it when a process dies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.server.admin import admin
from faircall.server.admin.admin import Admin, open_admin_socket, run_admin
from faircall.server.admin.client import call_admin, fetch_stats
from faircall.server.config import Settings
from faircall.server.port import Port
from faircall.server.supervisor.failures import CannotStart
from faircall.shm.states import Phase

from ..conftest import Load
from ..fault.kill import start, wait_for
from .small_port import small_port

ADMIN = "[admin]\nsocket = 'run/admin.sock'\n"


@pytest.fixture
def port(load: Load) -> Iterator[Port]:
    with small_port(load, ADMIN) as made:
        yield made


def test_socket_and_folder_are_closed_to_others(tmp_path: Path) -> None:
    sock, owned = open_admin_socket(str(tmp_path / "new/deep/a.sock"))
    folder = tmp_path / "new/deep"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "a.sock").stat().st_mode) == 0o600
    sock.close()
    owned.remove()
    assert list(folder.iterdir()) == []


def test_a_folder_in_which_others_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(CannotStart, match="others may write in"):
        open_admin_socket(str(tmp_path / "a.sock"))
    tmp_path.chmod(0o1777)  # as /tmp
    sock, owned = open_admin_socket(str(tmp_path / "a.sock"))
    sock.close()
    owned.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    monkey = start(lambda: _refused_as(1000, tmp_path))
    assert os.waitstatus_to_exitcode(wait_for(monkey)) == 0


def _refused_as(uid: int, folder: Path) -> None:
    os.seteuid(uid)
    with pytest.raises(CannotStart, match=r"belongs to uid 65534|Permission denied"):
        open_admin_socket(str(folder / "a.sock"))


class AdminProcess:
    """`run_admin` in a process of its own; `said` is what it reported first, or why it ended.

    At the end of the block it is killed, if it still runs.
    """

    def __init__(self, port: Port, settings: Settings) -> None:
        read, write = os.pipe()
        self.port, self.path = port, Path(settings.admin.socket).absolute()

        def say(text: str) -> None:
            os.write(write, text.encode())

        def run() -> None:
            try:
                run_admin([port], settings, say)
            except CannotStart as error:
                say(str(error))

        self.pid = start(run)
        os.close(write)
        self.said = os.read(read, 4096).decode()
        os.close(read)

    def __enter__(self) -> AdminProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def stop(self) -> int:
        self.port.shared.phase.set(Phase.STOPPED, 0)
        return self.wait()

    def kill(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def wait(self) -> int:
        """Its exit status; afterwards it is nobody's process any more."""
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(wait_for(pid))


def test_the_process_serves_until_the_server_stops_and_leaves_nothing(port: Port) -> None:
    with AdminProcess(port, port.settings) as process:
        assert process.said == "ready"
        port.shared.phase.set(Phase.RUNNING, 0)
        found = fetch_stats(str(process.path))
        assert found["phase"] == "RUNNING"
        (row,) = [p for p in found["ports"][0]["processes"] if p["role"] == "admin"]
        assert (row["pid"], row["status"]) == (process.pid, "READY")
        assert process.stop() == 0
    assert list(process.path.parent.iterdir()) == []


def test_the_end_of_the_supervisors_line_ends_it_at_once(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not at its next beat."""
    monkeypatch.setattr(admin, "BEAT_S", 1000.0)
    sock, path = open_admin_socket(port.settings.admin.socket)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def play() -> None:
        life = asyncio.create_task(Admin([port], sock, theirs).serve())
        row = port.shared.row("admin")
        while not row["beat_ns"]:
            await asyncio.sleep(0)
        ours.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(life, 30)

    with ours, theirs, sock:
        asyncio.run(play())
    path.remove()


def test_a_successor_takes_over_what_a_killed_one_left(port: Port) -> None:
    with AdminProcess(port, port.settings) as first:
        first.kill()
    assert first.path.exists()
    with AdminProcess(port, port.settings) as second:
        assert call_admin(str(second.path), "faircall.ping") == "pong"
        assert second.stop() == 0


def test_a_second_daemon_on_the_same_path_does_not_start(port: Port) -> None:
    with AdminProcess(port, port.settings) as first:
        with AdminProcess(port, port.settings) as second:
            assert "is in use by another faircall" in second.said
            assert second.wait() == 0
        assert call_admin(str(first.path), "faircall.ping") == "pong"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_by_the_kernels_word_though_the_mode_would_let_him(
    load: Load,
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        small_port(load, _at(folder)) as port,
        AdminProcess(port, port.settings) as process,
    ):
        os.chmod(folder, 0o755)
        process.path.chmod(0o666)
        stranger = start(lambda: _refused_to(65534, str(process.path)))
        assert os.waitstatus_to_exitcode(wait_for(stranger)) == 0


def _at(folder: str) -> str:
    return f"[admin]\nsocket = '{folder}/admin.sock'\n"


def _refused_to(uid: int, path: str) -> None:
    os.setuid(uid)
    with pytest.raises(PermissionError, match="for the daemon's own user"):
        fetch_stats(path)
