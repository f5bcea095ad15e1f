"""How a daemon starts, and how it says why it does not: one line, status 2, no traceback."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from ..daemon import PROBE, Daemon, started, until
from ..raw import Raw
from .conftest import UNIX, Serve
from .gates import Gate

pytestmark = pytest.mark.slow

HOOKED = """
from pathlib import Path
from faircall import Service
service = Service()

@service.on_start
def prepare(worker):
    {hook}

@service.method
def index() -> int:
    return 1
"""


def service(folder: Path, text: str) -> Path:
    path = folder / "hooked.py"
    path.write_text(text)
    return path


def refusal(folder: Path, target: Path | str, *args: str, **how: Any) -> str:
    """The one line in which a daemon says why it does not start."""
    with started(folder / "refused", target, *args, **how) as daemon:
        assert daemon.wait() == 2, daemon.log
        assert "Traceback" not in daemon.log
        reasons = [event["reason"] for event in daemon.events("cannot start")]
        assert len(reasons) == 1, daemon.log
        assert not daemon.events("ready")
    reason: str = reasons[0]
    return reason


def test_a_service_that_raises_when_it_is_imported(tmp_path: Path) -> None:
    path = service(tmp_path, "import math\nmath.sqrt(-1)\n")
    reason = refusal(tmp_path, path, "--handlers", "2")
    assert "ValueError" in reason
    assert f"{path}:2" in reason


@pytest.mark.parametrize(
    ("target", "word"),
    [("no_such_module:service", "no_such_module"), (f"{PROBE}:no_such_name", "no_such_name")],
)
def test_a_service_that_is_not_there(tmp_path: Path, target: str, word: str) -> None:
    assert word in refusal(tmp_path, target, "--handlers", "2")


def test_a_start_hook_that_fails(tmp_path: Path) -> None:
    path = service(tmp_path, HOOKED.format(hook="raise OSError('no such model')"))
    reason = refusal(tmp_path, path, "--handlers", "2")
    assert "no such model" in reason


def test_a_start_hook_that_takes_longer_than_it_may(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    path = service(tmp_path, HOOKED.format(hook=f"Path({gate.path!r}).read_text()"))
    setting = "handlers.startup-timeout-s"
    assert setting in refusal(tmp_path, path, "--handlers", "1", "--set", f"{setting}=1")


def test_it_is_ready_only_after_every_start_hook(tmp_path: Path) -> None:
    """Who connects before waits; nothing is refused."""
    gate = Gate(tmp_path)
    hook = f"worker.index == 1 and Path({gate.path!r}).read_text()"
    path = service(tmp_path, HOOKED.format(hook=hook))
    with started(tmp_path / "d", path, "--handlers", "2", binds=(UNIX,)) as daemon:
        gate.wait_for_call()
        daemon.event("handler ready", index=0)
        with Raw(f"unix:{daemon.folder}/x.sock") as early:
            early.send(b'{"jsonrpc":"2.0","method":"index","id":1}')
            assert not daemon.events("ready")
            gate.open()
            assert early.receive()["result"] == 1
        daemon.wait_ready()
        assert daemon.stop(signal.SIGINT) == 0


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        said = refusal(tmp_path, PROBE, binds=(address,))
        assert said.startswith(f"{address} is in use by another program")
        assert said.endswith(f"(pid {os.getpid()})")


def test_a_second_daemon_on_the_same_socket_does_no_harm(shared: Daemon, tmp_path: Path) -> None:
    assert "in use by another faircall" in refusal(tmp_path, PROBE, binds=(shared.unix,))
    with Raw(shared.unix) as raw:
        assert raw.call("echo", 1) == 1


def test_a_second_daemon_with_the_same_admin_socket(shared: Daemon, tmp_path: Path) -> None:
    admin = {"FAIRCALL_ADMIN": str(shared.admin_socket)}
    assert "in use by another faircall" in refusal(tmp_path, PROBE, "--handlers", "1", env=admin)
    assert shared.stats()["phase"] == "RUNNING"


def test_what_a_killed_daemon_left_is_cleared_away(tmp_path: Path) -> None:
    name = f"/dev/shm/faircall-{os.geteuid()}-{_dead_pid()}-0123456789abcdef"
    Path(name).touch()
    for _ in range(2):  # the second one finds the sockets of the first
        with started(tmp_path, PROBE, "--handlers", "1", binds=(UNIX,)) as daemon:
            daemon.wait_ready()
            with Raw(daemon.unix) as raw:
                assert raw.call("echo", 1) == 1
        assert Path(daemon.unix.removeprefix("unix:")).is_socket()
    assert not Path(name).exists()


def _dead_pid() -> int:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    return pid


def test_a_setting_that_is_wrong(tmp_path: Path) -> None:
    wrong = ("--set", "handlers.cuont=3")
    with started(tmp_path, PROBE, *wrong) as daemon:
        assert daemon.wait() == 2
        assert daemon.log.count("\n") == 1
        assert "handlers.cuont" in daemon.log
        assert "handlers.count" in daemon.log


def test_the_first_line_says_what_is_active(serve: Serve) -> None:
    daemon = serve(PROBE, "--handlers", "2", "--set", "ipc.0.scheduler.priority.levels=2")
    starting = daemon.event("starting")
    expected = {
        "queue": "FairCallQueue",
        "scheduler": "DecayRpcScheduler",
        "levels": 2,
        "in_turn": True,
        "backoff": True,
        "handlers": 2,
        "readers": 1,
    }
    assert expected.items() <= starting.items()
    until(lambda: _names(daemon) == {"reader": 1, "handler": 2, "acceptor": 1, "janitor": 1})


def _names(daemon: Daemon) -> dict[str, int]:
    found = {role: len(pids) for role, pids in daemon.children().items()}
    assert found.pop("admin") == 1
    return found
