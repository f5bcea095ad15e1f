"""Whether the machine is short of processors, from figures that the tests write."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from faircall.scheduling.alarms import PLENTY, Shortage
from faircall.server.admin.processor_use import STALE_NS, TICK_NS, ProcessorUse
from faircall.server.port import Port
from faircall.shm.columns import Counter

from .test_alarms import Scene

SECOND_NS = 1_000_000_000
PIDS = 101, 102
TICKS = SECOND_NS // TICK_NS  # a second


class Kernel:
    """The kernel's files, of two handlers; each figure in seconds since the start."""

    def __init__(self, folder: Path, port: Port) -> None:
        self.folder, self.port, self.now_ns = folder, port, port.created_ns
        for number, pid in enumerate(PIDS):
            port.shared.row("handler", number)["pid"] = pid
            (folder / str(pid)).mkdir()
        self.use = ProcessorUse([port], folder)

    def at(self, second: float, *, ran: float, waited: float, busy: float, idle: float) -> None:
        """That much of each handler, and of all processors together."""
        for pid in PIDS:
            ns = int(ran * SECOND_NS), int(waited * SECOND_NS)
            (self.folder / f"{pid}/schedstat").write_text(f"{ns[0]} {ns[1]} 7\n")
            user, system = int(0.75 * ran * TICKS), int(0.25 * ran * TICKS)
            head = f"{pid} (a) b c) S 1 1 1 0 -1 0 0 0 0 0"
            (self.folder / f"{pid}/stat").write_text(f"{head} {user} {system} 0 0 20 0 1 0\n")
        processor = min(os.sched_getaffinity(0))
        ticks = int(busy * TICKS), int(idle * TICKS)
        line = f"cpu{processor} {ticks[0]} 0 0 {ticks[1]} 0 0 0 0 0 0\n"
        others = "cpu9999 9 9 9 9 0 0 0 0\n"
        (self.folder / "stat").write_text(f"cpu  9 9 9 9 0 0 0 0 0 0\n{line}{others}")
        self.use.look(self.port.created_ns + int(second * SECOND_NS))

    def shortage(self) -> Shortage:
        return self.use.shortage(self.port, range(len(PIDS)))


@pytest.fixture
def kernel(tmp_path: Path, port: Port) -> Kernel:
    return Kernel(tmp_path, port)


def test_handlers_that_wait_for_a_processor_beside_others_are_starved(kernel: Kernel) -> None:
    kernel.at(0, ran=1, waited=0, busy=10, idle=20)
    kernel.at(1, ran=1.2, waited=0.6, busy=12, idle=20)
    found = kernel.shortage()
    assert found.starved == pytest.approx(0.75, abs=0.01)  # 0.6 of 0.8 s
    assert found.outside == pytest.approx(0.8, abs=0.02)  # 2 s less twice 0.2 s, of 2 s
    assert found.idle == 0


def test_handlers_whose_calls_sleep_are_not_starved(kernel: Kernel) -> None:
    """They wait for a processor for most of the little time in which they could run."""
    kernel.at(0, ran=0, waited=0, busy=0, idle=0)
    index = kernel.port.shared.index("handler", 0)
    kernel.port.shared.columns.add(index, Counter.BUSY_NS, SECOND_NS)
    kernel.at(1, ran=0.01, waited=0.05, busy=2, idle=0)
    assert kernel.shortage().starved == pytest.approx(0.1, abs=0.01)  # twice 50 ms of one second


def test_what_the_server_takes_itself_is_nobody_elses(kernel: Kernel) -> None:
    kernel.at(0, ran=0, waited=0, busy=0, idle=0)
    kernel.at(1, ran=0.9, waited=0.9, busy=1.8, idle=0.2)
    found = kernel.shortage()
    assert found.outside == pytest.approx(0, abs=0.02)
    assert found.idle == pytest.approx(0.1)


def test_before_the_second_look_and_after_a_pause_nothing_is_known(kernel: Kernel) -> None:
    assert kernel.shortage() == PLENTY
    kernel.at(0, ran=0, waited=0, busy=0, idle=0)
    assert kernel.shortage() == PLENTY
    kernel.at(1 + STALE_NS / SECOND_NS, ran=1, waited=3, busy=8, idle=0)
    assert kernel.shortage() == PLENTY


def test_only_the_last_second_counts(kernel: Kernel) -> None:
    for second, waited in enumerate((0.0, 5.0, 10.0, 10.0, 10.0)):
        kernel.at(second, ran=second / 2, waited=waited, busy=second, idle=second)
    assert kernel.shortage().starved == 0


def test_a_handler_in_the_place_of_another_is_known_after_its_second_look(kernel: Kernel) -> None:
    kernel.at(0, ran=5, waited=5, busy=0, idle=0)
    for pid in PIDS:
        (kernel.folder / f"{pid}/schedstat").unlink()
    kernel.use.look(kernel.port.created_ns + SECOND_NS)
    assert kernel.shortage() == PLENTY


def test_the_kernel_of_this_machine_tells(port: Port) -> None:
    """Our own process in the place of a handler: it has run, and the machine's time has passed."""
    port.shared.row("handler", 0)["pid"] = os.getpid()
    use = ProcessorUse([port])
    first, second = (use._sample(at_ns) for at_ns in (0, SECOND_NS))
    assert second.total_ns >= first.total_ns > 0
    assert second.taken[os.getpid()] >= TICK_NS
    if Path("/proc/self/schedstat").exists():
        assert second.ran[os.getpid()] > first.ran[os.getpid()] > 0


def test_an_alarm_for_want_of_processors_names_no_user(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(kernel.port)
    monkeypatch.setattr(scene.alarms, "_processors", kernel.use)
    for number in range(4):
        scene.traffic.offer(f"list-{number}", "ann")
    for quarter in range(5):
        seconds = quarter / 4
        kernel.at(seconds, ran=0.2 * seconds, waited=0.8 * seconds, busy=2 * seconds, idle=0)
        scene.publish(("ann", "", "list-0", "", 5, 0.1), ("bob", "", "add", "", 5, 0.1))
        scene.look()
    alarms = scene.alarms.active(scene.now_ns)
    assert [(alarm["rule"], alarm["user"], alarm["commands"]) for alarm in alarms] == [
        ("processors", "", [])
    ]
    assert "handlers wait for a processor for 80% of the time that calls take" in alarms[0]["text"]
    assert re.search("other programs take (79|80|81)% of all processors", alarms[0]["text"])
