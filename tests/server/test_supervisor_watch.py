"""The watch, with time handed in and processes that only note what is done to them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.server.port import Port
from faircall.server.supervisor.children import Child, Process
from faircall.server.supervisor.lifecycle import ChildEvent
from faircall.server.supervisor.stacks import ASK, StackFile, without_supervisor
from faircall.server.supervisor.watch import HUNG, SILENT, STOPPED, Watch

from ..conftest import Load
from .supervised import SMALL

SECOND = 1_000_000_000


class FakeProcess(Process):
    """Receives signals, and is never there."""

    def signal(self, number: signal.Signals) -> None:
        signals.append(number)


QUARTER_NS = 250_000_000  # between two looks here, however often the supervisor looks

signals: list[signal.Signals] = []


class Bench:
    """One child under watch. `tick` lets 250 ms pass and looks."""

    def __init__(self, port: Port, role: str, ready: bool = True) -> None:
        signals.clear()
        self.watch = Watch(port.settings)
        self.now_ns = self.watch.ticked_ns
        self.child = Child(role, 0, port)
        self.process = FakeProcess(4711, -1, None, self.now_ns)  # type: ignore[arg-type]
        self.child.process = self.process
        self.child.stacks = StackFile() if role == "handler" else None
        self.child.happen(ChildEvent.SPAWN)
        if ready:
            self.child.happen(ChildEvent.REPORT)
        self.row = port.shared.expect(role, 0)
        self.row["beat_ns"] = self.now_ns

    def tick(self, count: int = 1, *, beats: bool = True, passes_ns: int = QUARTER_NS) -> str:
        for _ in range(count):
            self.now_ns += passes_ns
            if beats:
                self.row["beat_ns"] = self.now_ns
            self.watch.tick([self.child], self.now_ns)
        return self.process.doom

    def run_call(self, *, deadline_in_ns: int, current: int = 1 << 32 | 1) -> None:
        self.row["current_deadline_ns"] = self.now_ns + deadline_in_ns
        self.row["current"] = current

    def stack_file(self) -> Path:
        assert self.child.stacks
        return Path(f"/proc/self/fd/{self.child.stacks.fd}")


@pytest.fixture
def port(load: Load) -> Iterator[Port]:
    settings = load(SMALL)
    port = Port(settings, settings.ports[0])
    yield port
    port.close()


def test_who_beats_lives(port: Port) -> None:
    assert Bench(port, "reader").tick(400) == ""


@pytest.mark.parametrize("role", ["reader", "handler", "acceptor", "janitor"])
def test_who_does_not_beat_for_long_is_killed(port: Port, role: str) -> None:
    bench = Bench(port, role)
    assert bench.tick(48, beats=False) == ""  # 12 s: suspected since 10 s
    assert bench.tick(2, beats=False) == SILENT
    assert signals == [signal.SIGKILL]


def test_a_late_beat_takes_away_the_suspicion(port: Port) -> None:
    bench = Bench(port, "reader")
    bench.tick(45, beats=False)
    bench.tick()
    assert bench.tick(45, beats=False) == ""


def test_the_admin_process_need_not_beat(port: Port) -> None:
    assert Bench(port, "admin").tick(100, beats=False) == ""


def test_a_handler_in_a_call_need_not_beat(port: Port) -> None:
    bench = Bench(port, "handler")
    bench.run_call(deadline_in_ns=100 * SECOND)
    assert bench.tick(200, beats=False) == ""


def test_who_stays_stopped_is_killed(port: Port) -> None:
    bench = Bench(port, "reader")
    bench.process.stopped_ns = bench.now_ns
    assert bench.tick() == ""
    assert bench.tick() == STOPPED


def test_who_goes_on_in_time_is_not(port: Port) -> None:
    bench = Bench(port, "reader")
    bench.process.stopped_ns = bench.now_ns
    bench.tick()
    bench.process.stopped_ns = 0
    assert bench.tick(10) == ""


def test_who_is_not_ready_in_time_is_killed(port: Port) -> None:
    bench = Bench(port, "handler", ready=False)
    assert bench.tick(1200, beats=False) == ""
    assert bench.tick(beats=False) == "300 s are over (handlers.startup-timeout-s)"


def test_a_call_past_its_deadline_is_asked_for_its_stack_and_then_killed(
    port: Port, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(port, "handler")
    bench.run_call(deadline_in_ns=QUARTER_NS)
    bench.tick()  # at the deadline
    assert signals == []
    bench.tick()  # 250 ms past it; the grace is 100 ms
    assert signals == [ASK]
    bench.stack_file().write_text('  File "a.py", line 1 in f')
    assert bench.tick() == HUNG
    assert signals == [ASK, signal.SIGKILL]
    (record,) = caplog.records
    assert record.msg == "handler hung"
    assert isinstance(record.args, dict)
    assert record.args["stack"] == 'File "a.py", line 1 in f'
    assert record.args["late_ms"] == 500


def test_the_next_call_is_not_taken_for_the_one_that_hung(port: Port) -> None:
    bench = Bench(port, "handler")
    bench.run_call(deadline_in_ns=0)
    bench.tick()
    assert signals == [ASK]
    bench.run_call(deadline_in_ns=10 * SECOND, current=1 << 32 | 2)
    assert bench.tick(8) == ""
    bench.run_call(deadline_in_ns=0, current=1 << 32 | 3)
    bench.tick()
    assert signals == [ASK, ASK]


def test_nobody_is_to_blame_after_a_suspension(port: Port) -> None:
    for role in ("reader", "handler"):
        bench = Bench(port, role)
        if role == "handler":
            bench.run_call(deadline_in_ns=SECOND)
        bench.process.stopped_ns = bench.now_ns
        bench.tick(beats=False, passes_ns=60 * SECOND)
        assert bench.tick(beats=False) == ""
        bench.process.stopped_ns = 0
        assert bench.tick(8, beats=False) == ""
        bench.row["current"] = 0
        assert bench.tick(20) == ""
        assert signal.SIGKILL not in signals


def test_who_stays_stopped_after_a_suspension_is_killed_all_the_same(port: Port) -> None:
    bench = Bench(port, "reader")
    bench.process.stopped_ns = bench.now_ns
    bench.tick(passes_ns=60 * SECOND)
    assert bench.tick(2) == STOPPED


def test_nobody_is_killed_twice(port: Port) -> None:
    bench = Bench(port, "reader")
    bench.process.stopped_ns = bench.now_ns
    bench.tick(10)
    assert signals == [signal.SIGKILL]


def test_a_stack_ends_where_the_users_code_was_called() -> None:
    text = (
        "Thread 0x1 (most recent call first):\n"
        '  File "pool.py", line 3 in wait\n'
        "\n"
        "Current thread 0x2 (most recent call first):\n"
        '  File "app.py", line 7 in resize\n'
        '  File "handler.py", line 9 in run_handler\n'
        '  File "supervisor.py", line 1 in run\n'
        "\n"
        "Extension modules: numpy"
    )
    assert without_supervisor(text).splitlines() == [
        "Thread 0x1 (most recent call first):",
        '  File "pool.py", line 3 in wait',
        "",
        "Current thread 0x2 (most recent call first):",
        '  File "app.py", line 7 in resize',
        "",
        "Extension modules: numpy",
    ]
