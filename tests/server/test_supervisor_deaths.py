"""Children that die, hang or stop, with real processes: what is said, and that all goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.server.janitor.janitor import run_janitor
from faircall.server.supervisor.roles import Body, Duty, bodies_for
from faircall.shm.columns import Counter
from faircall.shm.states import Phase, Status

from ..conftest import Load
from .stand_in import until
from .supervised import FAULTY, Daemon, Start, starting

pytestmark = [pytest.mark.slow, pytest.mark.fault]

ALL = ["reader", "handler", "acceptor", "janitor"]
HANDLER = bodies_for(FAULTY)["handler"]


@pytest.fixture
def start(load: Load, tmp_path: Path) -> Iterator[Start]:
    with starting(load, tmp_path / "log") as start:
        yield start


def is_sound(d: Daemon) -> bool:
    """The server serves, and its segment holds what it should."""
    return d.call("pid")[0] == Status.RESULT and d.shared.audit() == []


@pytest.mark.parametrize("role", ALL)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP])
def test_whoever_dies_or_stops_is_replaced(start: Start, role: str, number: signal.Signals) -> None:
    d = start()
    before = d.pid_of(role)
    os.kill(before, number)
    after = d.replaced(role, 0, before)
    assert is_sound(d)
    (line,) = d.log(f"{role} died")
    expected = signal.SIGKILL if number == signal.SIGSTOP else number
    assert (line["pid"], line["signal"], line["restarts"]) == (before, expected.name, 1)
    assert line.get("killed") == ("stopped" if number == signal.SIGSTOP else None)
    assert d.pid_of(role) == after
    assert d.stop() == 0


@pytest.mark.parametrize("role", ["reader", "handler", "acceptor"])
def test_a_place_is_given_again_after_the_janitors_answer_only(start: Start, role: str) -> None:
    d = start()
    before = d.pid_of(role)
    os.kill(before, signal.SIGKILL)
    d.replaced(role, 0, before)
    course = until(lambda: _course(d, role), "the whole course in the log")
    assert course == ["DEAD", "died", "WAITING", "reaped", "STARTING", "READY"]
    assert d.shared.columns.total(Counter.REAPED) == 1


def _course(d: Daemon, role: str) -> list[str]:
    """What the log says of the first of `role` since its death; [] until it is ready again."""
    course = []
    for line in d.log():
        if line["event"] == f"{role} died":
            course.append("died")
        elif line.get("role") == role and line.get("index", 0) == 0:
            course.append("reaped" if line["event"] == "child reaped" else line["state"])
    since = course[course.index("DEAD") :] if "DEAD" in course else []
    return since if since[-1:] == ["READY"] else []


@pytest.mark.parametrize(
    ("method", "params", "cause"),
    [
        ("die", [int(signal.SIGKILL)], {"signal": "SIGKILL"}),
        ("die", [int(signal.SIGSEGV)], {"signal": "SIGSEGV"}),
        ("die", [int(signal.SIGABRT)], {"signal": "SIGABRT"}),
        ("die", [int(signal.SIGSTOP)], {"signal": "SIGKILL", "killed": "stopped"}),
        ("leave", [], {"status": 3}),
    ],
)
def test_a_handler_that_dies_in_a_call_answers_it_and_is_replaced(
    start: Start, method: str, params: list[int], cause: dict[str, object]
) -> None:
    d = start()
    assert d.call(method, *params, user="al\nice") == (Status.DIED, None)
    (line,) = until(lambda: d.log("handler died"))
    assert line.items() >= {"method": method, "user": "al\nice", **cause}.items()
    assert line["age_ms"] >= 0
    if cause.get("signal") in ("SIGSEGV", "SIGABRT"):
        assert "in die" in line["stack"]
        assert "in run_handler" not in line["stack"]
    d.replaced("handler", line["index"], line["pid"])
    assert is_sound(d)


def test_an_idempotent_call_is_tried_three_times(start: Start) -> None:
    d = start()
    assert d.call("die_again") == (Status.DIED, None)
    until(lambda: len(d.log("handler died")) == 3)
    assert d.shared.columns.total(Counter.REQUEUED) == 2
    assert is_sound(d)


def test_a_call_that_never_ends_is_killed_and_its_stack_logged(start: Start) -> None:
    d = start()
    slot = d.offer("spin", timeout_s=600)
    rows = [d.shared.row("handler", number) for number in (0, 1)]
    (row,) = until(lambda: [row for row in rows if row["current"]], "the beginning of the call")
    row["current_deadline_ns"] = time.monotonic_ns()
    assert d.answer(slot) == (Status.DIED, None)
    (line,) = d.log("handler hung")
    assert (line["method"], line["user"]) == ("spin", "alice")
    assert "in spin" in line["stack"]
    assert until(lambda: d.log("handler died"))[0]["killed"] == "hung"
    assert is_sound(d)


def test_many_deaths_in_calls_do_not_delay_the_next_handler(start: Start) -> None:
    d = start(("count = 2", "count = 1"))
    for _ in range(6):
        assert d.call("die", int(signal.SIGKILL))[0] == Status.DIED
    assert is_sound(d)


def test_a_dead_readers_calls_are_dropped_and_what_runs_is_given_up(start: Start) -> None:
    d = start(("count = 2", "count = 1"))
    d.offer("spin", timeout_s=600)
    until(lambda: d.shared.row("handler", 0)["current"])
    d.offer("pid")
    before = d.pid_of("reader")
    os.kill(before, signal.SIGKILL)
    d.replaced("reader", 0, before)
    assert d.shared.table.recovery.count_states() == {"FREE": 255, "ABANDONED": 1}
    assert d.shared.audit() == []


def test_a_janitor_that_does_not_answer_is_replaced_and_its_orders_given_again(
    start: Start,
) -> None:
    d = start(bodies={"janitor": _deaf_once})
    deaf, dead = d.pid_of("janitor"), d.pid_of("handler")
    os.kill(dead, signal.SIGKILL)
    d.replaced("handler", 0, dead)
    (line,) = d.log("janitor died")
    assert (line["pid"], line["killed"]) == (deaf, "silent")
    assert is_sound(d)


def _deaf_once(duty: Duty) -> int:
    """The first janitor says ready, and nothing any more."""
    row = duty.port.shared.row("janitor")
    if row["incarnation"] > 1:
        return run_janitor(duty.port, duty.channel, duty.report)
    row.enter()
    row["beat_ns"] = 1 << 62
    duty.report("ready")
    signal.pause()
    return 0


def test_a_child_that_cannot_start_any_more_is_tried_again_and_the_rest_serves_on(
    start: Start, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"

    def handler(duty: Duty) -> int:
        if duty.number == 0 and broken.exists():
            raise RuntimeError("no GPU")
        return HANDLER(duty)

    d = start(bodies={"handler": handler})
    broken.touch()
    before = d.pid_of("handler")
    os.kill(before, signal.SIGKILL)
    until(lambda: len(d.log("child cannot start")) >= 3)
    assert d.log("child cannot start")[0]["reason"].startswith("RuntimeError: no GPU (")
    assert d.phase() == Phase.RUNNING
    assert d.call("pid") == (Status.RESULT, d.pid_of("handler", 1))
    broken.unlink()
    until(lambda: d.is_ready("handler"))
    assert is_sound(d)


def test_a_ready_child_that_dies_during_the_start_is_replaced(start: Start, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def handler(duty: Duty) -> int:
        until(gate.exists)
        return HANDLER(duty)

    body: Body = handler
    d = start(bodies={"handler": body}, waits=False)
    until(lambda: d.is_ready("reader"))
    before = d.pid_of("reader")
    ready = ("reader", "READY")
    until(lambda: ready in [(e["role"], e["state"]) for e in d.log("child changed")])
    os.kill(before, signal.SIGKILL)
    d.replaced("reader", 0, before)
    gate.touch()
    d.wait_for(Phase.RUNNING)
    assert is_sound(d)


class Closing(Duty):
    """A duty whose channel is closed as soon as "ready" was said: user code may do that."""

    def report(self, message: str) -> None:
        super().report(message)
        self.channel.close()


def test_a_channel_that_user_code_closes_costs_nothing(start: Start) -> None:
    def handler(duty: Duty) -> int:
        told = (duty.role, duty.number, duty.port, duty.ports, duty.channel, duty.stacks)
        return HANDLER(Closing(*told))

    d = start(bodies={"handler": handler})
    before, began = _cpu_ticks(d.pid), os.times().elapsed
    for _ in range(50):
        assert d.call("pid")[0] == Status.RESULT
    passed = (os.times().elapsed - began) * os.sysconf("SC_CLK_TCK")
    assert _cpu_ticks(d.pid) - before <= 2 + passed / 20
    assert d.stop() == 0


def _cpu_ticks(pid: int) -> int:
    """User and system time of a process, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
