"""How a daemon starts, with real processes, and what can go wrong with that."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.server.supervisor.roles import bodies_for
from faircall.shm.processes import ROLES
from faircall.shm.states import Status

from ..conftest import Load
from .stand_in import until
from .supervised import FAULTY, Start, service, starting

pytestmark = pytest.mark.slow


@pytest.fixture
def start(load: Load, tmp_path: Path) -> Iterator[Start]:
    with starting(load, tmp_path / "log") as start:
        yield start


def test_when_all_children_are_ready_it_says_where_it_listens(start: Start) -> None:
    d = start()
    with socket.create_connection(d.place()):
        until(lambda: d.shared.row("reader", 0)["connections"] == 1)
    states = [entry for entry in d.log("child changed") if entry["state"] == "STARTING"]
    assert states[-1]["role"] == "acceptor"
    assert d.call("pid")[1] in (d.pid_of("handler", 0), d.pid_of("handler", 1))


def test_it_has_the_children_that_were_configured_under_their_names(start: Start) -> None:
    d = start(("readers = 1", "readers = 2"), ("count = 2", "count = 3"))
    names = sorted(Path(f"/proc/{pid}/comm").read_text().strip() for pid in d.children())
    assert names == [
        "faircall-accept",
        "faircall-hand0",
        "faircall-hand1",
        "faircall-hand2",
        "faircall-janito",
        "faircall-read0",
        "faircall-read1",
    ]


def test_a_handler_keeps_no_socket_but_its_channel(start: Start) -> None:
    d = start()
    _, links = d.call("descriptors")
    assert len([link for link in links if link.startswith("socket:")]) == 1
    assert len([link for link in links if "eventfd" in link]) == 4  # a reader, 2 handlers, a spare


def test_handlers_are_the_first_to_go_when_memory_runs_out(start: Start) -> None:
    d = start()
    scores = {
        role: int(Path(f"/proc/{d.pid_of(role)}/oom_score_adj").read_text())
        for role in ("reader", "handler", "acceptor", "janitor")
    }
    assert scores.pop("handler") == min(1000, max(scores.values()) + 500)


def test_handlers_do_not_share_their_random_numbers(start: Start) -> None:
    d = start(("count = 2", "count = 1"))
    drawn = {d.call("random_number")[1]}
    before = d.pid_of("handler")
    os.kill(before, signal.SIGKILL)
    d.replaced("handler", 0, before)
    drawn.add(d.call("random_number")[1])
    assert len(drawn) == 2


def test_processes_of_the_service_end_by_signals_as_they_would_anywhere(start: Start) -> None:
    d = start()
    assert d.call("started_program_ends_by_sigterm") == (Status.RESULT, True)
    assert d.call("forked_child_ends_by_sigterm") == (Status.RESULT, True)


def test_a_service_that_does_not_import_stops_the_start_with_its_message(
    start: Start, tmp_path: Path
) -> None:
    d = start(target=service(tmp_path, "import no_such_module_at_all"), waits=False)
    until(d.has_ended)
    assert d.status == 2
    (line,) = d.log("cannot start")
    assert "no_such_module_at_all" in line["reason"]
    assert [entry for entry in d.log() if "traceback" in entry["event"].lower()] == []
    assert all(e["severity"] == "debug" for e in d.log() if "traceback" in e)


def test_a_start_hook_that_raises_stops_the_start_and_says_where(
    start: Start, tmp_path: Path
) -> None:
    text = """
    @service.method
    def f() -> None: ...
    @service.on_start
    def load_model() -> None:
        raise FileNotFoundError("no model")
    """
    d = start(target=service(tmp_path, text), waits=False)
    until(d.has_ended)
    assert d.status == 2
    (line,) = d.log("cannot start")
    expected = "the start hook load_model() raised FileNotFoundError: no model ("
    assert line["reason"].startswith(expected)
    assert "svc.py:8" in line["reason"]


def test_a_child_that_dies_before_it_is_ready_stops_the_start(start: Start, tmp_path: Path) -> None:
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
    d = start(target=service(tmp_path, text), waits=False)
    until(d.has_ended)
    assert d.status == 2
    (line,) = d.log("cannot start")
    assert "ended before it was ready: signal=SIGSEGV" in line["reason"]


def test_a_start_that_takes_too_long_is_given_up(start: Start, tmp_path: Path) -> None:
    text = "import signal\nsignal.pause()"
    once = ("hang-grace-ms", "startup-timeout-s = 1\nhang-grace-ms")
    d = start(once, target=service(tmp_path, text), waits=False)
    until(d.has_ended)
    assert d.status == 2
    assert "1 s are over (handlers.startup-timeout-s)" in d.log("cannot start")[0]["reason"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_can_be_interrupted(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    text = "import signal\nsignal.pause()"
    d = start(target=service(tmp_path, text), waits=False)
    until(lambda: d.is_ready("reader"))
    assert d.stop(number) == 0


def test_several_ports_are_servers_of_their_own_under_one_supervisor(
    start: Start, tmp_path: Path
) -> None:
    places = f'"tcp://127.0.0.1:0", "unix:{tmp_path}/s#1"'
    d = start(('"tcp://127.0.0.1:0"', places))
    assert len(d.ports) == 2
    assert len(d.children()) == 10
    until(lambda: len({line["address"] for line in d.log("ready")}) == 2, "both addresses")
    other = d.ports[1].shared.row("handler", 0)["pid"]
    os.kill(other, signal.SIGKILL)
    until(lambda: d.ports[1].shared.row("handler", 0)["pid"] not in (0, other))
    (line,) = d.log("handler died")
    assert (line["port"], line["index"]) == (1, 0)
    assert d.stop() == 0
    assert not (tmp_path / "s").exists()


def test_all_roles_have_a_body() -> None:
    assert set(bodies_for("x:y")) == set(ROLES)


def test_an_address_in_use_is_one_line_and_status_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "faircall", "serve", FAULTY, "--bind", address],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    start, _, who = line.partition(f'ERROR cannot start: reason="{address} is in use by another ')
    assert start
    assert f"(pid {os.getpid()})" in who
    assert done.stdout == ""
