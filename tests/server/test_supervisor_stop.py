"""How a daemon ends, with real processes: in time, at once, or by SIGKILL."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.server.supervisor.roles import Duty
from faircall.shm.states import Phase, Status

from ..conftest import Load
from .stand_in import run_stand_in, until
from .supervised import Start, service, starting

pytestmark = pytest.mark.slow


@pytest.fixture
def start(load: Load, tmp_path: Path) -> Iterator[Start]:
    with starting(load, tmp_path / "log") as start:
        yield start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_nothing_is_left(
    start: Start, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTY_STOPPED", str(tmp_path / "stopped"))
    d = start()
    children = d.children()
    handlers = {d.pid_of("handler", n) for n in (0, 1)}
    assert d.stop(number) == 0
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert {int(p.name.split("-")[1]) for p in tmp_path.glob("stopped-*")} == handlers
    assert d.log()[-1]["event"] == "stopped"
    told = {line["event"] for line in d.log() if line["severity"] in ("warning", "error")}
    assert told <= {"woke up late"}, "but for what a machine does that stood still"


def test_it_first_leaves_then_drains_then_stops(start: Start) -> None:
    d = start()
    d.stop()
    phases = [line["to"] for line in d.log("phase")]
    assert phases == ["RUNNING", "LEAVING", "DRAINING", "STOPPED"]


def test_while_leaving_it_still_accepts(start: Start) -> None:
    d = start(("accept-ms = 0", "accept-ms = 600000"))
    place = d.place()
    d.send(signal.SIGTERM)
    d.wait_for(Phase.LEAVING)
    with socket.create_connection(place):
        until(lambda: d.shared.row("reader", 0)["connections"] == 1)
    assert d.stop() == 0


def test_while_draining_nobody_can_connect_and_calls_in_flight_are_finished(start: Start) -> None:
    d = start(bodies={"reader": _busy_reader})
    place = d.place()
    d.send(signal.SIGINT)
    d.wait_for(Phase.DRAINING)
    until(lambda: _refuses(place))
    assert d.call("pid")[0] == Status.RESULT
    d.shared.row("reader", 0)["quiet"] = 1
    until(d.has_ended)
    assert d.status == 0


def _busy_reader(duty: Duty) -> int:
    """A reader that is not quiet until the test says so."""
    return run_stand_in(duty, quiet=0)


def _refuses(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place).close()
    except ConnectionRefusedError:
        return True
    return False


def test_after_the_grace_period_calls_are_cut_off(start: Start) -> None:
    d = start(("grace-ms = 20000", "grace-ms = 100"), bodies={"reader": _busy_reader})
    d.offer("spin")
    until(lambda: any(d.shared.row("handler", n)["current"] for n in (0, 1)))
    assert d.stop(signal.SIGINT) == 0
    (line,) = d.log("call cut off")
    assert (line["method"], line["user"]) == ("spin", "alice")


def test_a_second_signal_stops_now(start: Start) -> None:
    d = start(bodies={"reader": _busy_reader})
    d.offer("spin")
    until(lambda: any(d.shared.row("handler", n)["current"] for n in (0, 1)))
    d.send(signal.SIGINT)
    d.wait_for(Phase.DRAINING)
    assert d.stop(signal.SIGINT) == 1
    assert [line["to"] for line in d.log("phase")] == ["RUNNING", "DRAINING", "STOPPED"]


def test_a_stop_hook_that_takes_for_ever_is_not_waited_for(start: Start, tmp_path: Path) -> None:
    text = """
    import signal
    @service.method
    def f() -> None: ...
    @service.on_stop
    def linger() -> None:
        signal.pause()
    """
    d = start(target=service(tmp_path, text))
    assert d.stop() == 0


def test_sighup_without_a_source_is_refused_in_the_log(start: Start) -> None:
    d = start()
    d.send(signal.SIGHUP)
    (refused,) = until(lambda: d.log("reload refused"))
    assert "they were not read from a file" in refused["reason"]
    assert d.phase() == Phase.RUNNING
    assert d.call("pid")[0] == Status.RESULT
    assert d.stop() == 0


def test_children_do_not_outlive_a_supervisor_that_is_killed(start: Start) -> None:
    d = start()
    children = d.children()
    assert len(children) == 5
    assert d.stop(signal.SIGKILL) == -signal.SIGKILL
    until(lambda: not [pid for pid in children if _runs(pid)], "all children to be gone")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
