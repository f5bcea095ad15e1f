"""Alarms of a port whose words the tests store as readers and handlers do; and hooks."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faircall.scheduling.alarms import Rule
from faircall.scheduling.top_list import HALF_LIFE_NS
from faircall.server.admin.alarm_text import alarm_lines, sentence
from faircall.server.admin.alarms import IDLE_S, LOOK_S, PENDING_S, Alarms
from faircall.server.admin.hooks import MOST, Hooks
from faircall.server.admin.pressure import Pressure
from faircall.server.port import Port
from faircall.shm.columns import Counter
from faircall.shm.top_callers import FIGURES, names_of

from ..conftest import Load
from .small_port import Traffic, small_port

SECOND_NS = 1_000_000_000
LOOK_NS = SECOND_NS // 4


class Scene:
    """A port, and what its reader publishes; time is that of the test."""

    def __init__(self, port: Port) -> None:
        self.port, self.traffic, self.now_ns = port, Traffic(port), port.created_ns
        self._counted: dict[tuple[str, str, str, str], list[float]] = {}
        self._published_ns = self.now_ns
        self.alarms = Alarms([port], self.now_ns)

    def publish(self, *who: tuple[str, str, str, str, float, float]) -> None:
        """(user, job, method, address, calls, busy seconds) since the last publication."""
        left = 0.5 ** ((self.now_ns - self._published_ns) / HALF_LIFE_NS)
        self._published_ns = self.now_ns
        for figures in self._counted.values():
            figures[:] = [figure * left for figure in figures]
        for *key, calls, busy_s in who:
            figures = self._counted.setdefault((*key,), [0.0] * FIGURES)  # type: ignore[arg-type]
            figures[0] += calls
            figures[1] += calls
            figures[2] += busy_s * 1e9
        names, rows = self.port.shared.names, []
        for (user, job, method, address), figures in self._counted.items():
            reference = names.reference(self.traffic.user(user))
            row = names.method(method, 0, 0)
            rows.append((figures, names_of(reference, row, user.encode(), job, address)))
        self.port.shared.top_callers.publish(0, self.now_ns, 1.0, [0.0] * FIGURES, rows)

    def refuse(self, count: int, counter: Counter = Counter.REFUSED_QUEUE_FULL) -> None:
        index = self.port.shared.index("reader", 0)
        self.port.shared.columns.add(index, counter, count)
        self.port.shared.columns.add(index, Counter.CALLS, count)

    def look(self, looks: int = 1) -> float:
        for _ in range(looks):
            self.now_ns += LOOK_NS
            found = self.alarms.look(self.now_ns)
        return found


@pytest.fixture
def scene(load: Load) -> Iterator[Scene]:
    with small_port(load) as port:
        yield Scene(port)


def test_an_old_heavy_user_is_not_named_for_a_new_one(scene: Scene) -> None:
    """Whose calls of long ago have not decayed yet has done nothing in this second."""
    scene.publish(("old", "", "spin", "192.0.2.1", 5000, 20.0))
    for _ in range(5):
        scene.publish()
        scene.look()
    for _ in range(8):
        scene.publish(("ann", "etl-1", "list", "192.0.2.7", 20, 0.4), ("bob", "", "add", "", 5, 0))
        scene.refuse(10)
        scene.look()
    (alarm,) = scene.alarms.active(scene.now_ns)
    assert (alarm["rule"], alarm["user"], alarm["job"], alarm["method"], alarm["address"]) == (
        "refusals",
        "ann",
        "etl-1",
        "list",
        "192.0.2.7",
    )
    assert alarm["share"] > 0.9
    assert "ann takes " in alarm["text"]
    assert "mostly list of etl-1 from 192.0.2.7" in alarm["text"]
    assert "--calls 8 --period 1" in alarm["commands"][0]  # a tenth of 80 a second


def test_what_a_limit_refuses_raises_nothing(scene: Scene) -> None:
    for _ in range(8):
        scene.refuse(100, Counter.THROTTLED)
        scene.look()
    assert scene.alarms.active(scene.now_ns) == []


def test_calls_that_a_limit_holds_hide_none_that_wait(scene: Scene) -> None:
    table = scene.port.shared.table
    for number in range(3):
        scene.traffic.offer(f"add-{number}", "bob")
    table.q[table.held.held_word] += 10
    table.q[table.held.level_held_word] += 10
    scene.look(5)
    assert {alarm["rule"] for alarm in scene.alarms.active(scene.now_ns)} == {"wait"}


def test_calls_that_run_for_long_are_counted_before_they_end(scene: Scene) -> None:
    scene.traffic.offer("list", "ann")
    scene.traffic.begin(0, scene.now_ns)
    for number in range(3):
        scene.traffic.offer(f"add-{number}", "bob")
    for _ in range(4):
        scene.publish(("bob", "", "add-0", "", 1, 0.0))
        scene.look()
    found = {alarm["rule"]: alarm["user"] for alarm in scene.alarms.active(scene.now_ns)}
    assert found == {"wait": "ann", "share": "ann"}


def test_it_is_looked_more_often_while_something_happens(scene: Scene) -> None:
    assert scene.look() == IDLE_S
    scene.refuse(1)
    assert scene.look() == LOOK_S
    scene.refuse(100)
    assert scene.look() == PENDING_S


def test_an_alarm_is_counted_told_and_cleared(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "faircall.admin")
    for _ in range(4):
        scene.refuse(100)
        scene.look()
    counts = {rule: (active, raised) for _, rule, active, raised in scene.alarms.counts()}
    assert counts.pop(Rule.REFUSALS) == (True, 1)
    assert set(counts.values()) == {(False, 0)}
    (alarm,) = scene.alarms.active(scene.now_ns)
    assert alarm["text"].endswith("nobody alone does it")
    assert list(alarm_lines([alarm])) == [f"ALARM {alarm['text']}"]
    scene.look(30)
    assert scene.alarms.active(scene.now_ns) == []
    assert [record.message for record in caplog.records] == ["alarm raised", "alarm cleared"]


def test_the_commands_stay_as_they_were_first_told(scene: Scene) -> None:
    """Though the limit works that they set, which leaves a tenth of the calls."""
    told: set[tuple[str, ...]] = set()
    for calls in (4000, 4000, 4000, 4000, 400, 400, 400, 400):
        scene.publish(("ann", "etl", "report", "10.0.0.1", calls, 0.2))
        scene.refuse(100)
        scene.look()
        told |= {tuple(alarm["commands"]) for alarm in scene.alarms.active(scene.now_ns)}
    ((limit, *_),) = told
    assert limit.startswith("faircall throttle set --level caller --caller ann --calls ")


def test_a_limit_that_is_typed_is_not_told_anew(scene: Scene) -> None:
    """Neither when another method of the user is the heaviest then, nor after other users."""
    limits: dict[str, set[str]] = {"ann": set(), "bob": set()}
    phases = [("ann", "report", 4000), ("ann", "listing", 900), ("bob", "status", 3000)]
    for user, method, calls in (*phases, ("ann", "report", 300)):
        for _ in range(16):
            scene.publish((user, "", method, "10.0.0.1", calls, 2.0))
            scene.refuse(100)
            scene.look()
            for alarm in scene.alarms.active(scene.now_ns):
                limits[alarm["user"]].add(alarm["commands"][0])
    assert {user: len(told) for user, told in limits.items()} == {"ann": 1, "bob": 1}


def test_alarms_that_are_turned_off_are_none(load: Load) -> None:
    with small_port(load, "[alarms]\nenable = false\n") as port:
        scene = Scene(port)
        for _ in range(8):
            scene.refuse(100)
            assert scene.look() == IDLE_S
        assert scene.alarms.active(scene.now_ns) == []


def test_a_port_without_traffic_has_none(scene: Scene) -> None:
    pressure = Pressure(scene.port, scene.now_ns)
    assert not pressure.has_traffic()
    scene.traffic.offer("add", "bob")
    assert pressure.has_traffic()
    (found,) = pressure.look(scene.now_ns + LOOK_NS)
    assert (found.suspect, found.reading.waiting) == (None, 1)
    assert found.reading.wait_ns == LOOK_NS  # nothing goes, so long


def test_what_waits_is_counted_beside_what_limits_hold(scene: Scene) -> None:
    pressure, table = Pressure(scene.port, scene.now_ns), scene.port.shared.table
    for number in range(3):
        scene.traffic.offer(f"add-{number}", "bob")
    table.q[table.held.held_word] = 100  # as it is when that many are HELD
    (found,) = pressure.look(scene.now_ns + LOOK_NS)
    assert found.reading.waiting == 3


def test_what_a_handler_has_claimed_ahead_waits(scene: Scene) -> None:
    pressure, claimed = Pressure(scene.port, scene.now_ns), 3 * scene.port.shared.working
    for number in range(claimed):
        scene.traffic.offer(f"add-{number}", "bob")
        scene.traffic.begin(0, scene.now_ns)
    (found,) = pressure.look(scene.now_ns + LOOK_NS)
    assert found.reading.waiting == claimed - scene.port.shared.working


# -- hooks ----------------------------------------------------------------------------------------


def run_hooks(*commands: list[str], timeout_s: float = 30.0) -> None:
    """Until all have ended."""

    async def run() -> None:
        hooks = Hooks()
        for words in commands:
            hooks.run(words, {"user": "ann"}, timeout_s)
        while hooks.running:
            await asyncio.sleep(0.005)

    asyncio.run(run())


def test_a_hook_reads_the_alarm(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    run_hooks([sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(input())", out])
    assert json.loads(Path(out).read_text()) == {"user": "ann"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["/no/such/command"], "No such file or directory"),
        (["false"], "exit code 1"),
        (["sleep", "1000"], "its time was over"),
    ],
)
def test_a_hook_that_fails_is_told(
    words: list[str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_hooks(words, timeout_s=0.05 if words[0] == "sleep" else 30.0)
    (record,) = caplog.records
    assert record.message == "alarm hook failed"
    assert isinstance(record.args, dict)
    assert record.args["reason"] == reason


def test_only_so_many_hooks_run_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> int:
        hooks = Hooks()
        for _ in range(MOST + 1):
            hooks.run(["sleep", "1000"], {}, 1000)
        running = hooks.running
        hooks.close()
        return running

    assert asyncio.run(run()) == MOST
    assert [record.message for record in caplog.records] == ["alarm hook left out"]


NOBODY = {"port": 1, "group": "", "user": "", "since_s": 1.0, "starved": 0.0, "outside": 0.0}


@pytest.mark.parametrize("rule", list(Rule))
def test_every_rule_has_its_sentence(rule: Rule) -> None:
    assert f"(rule {rule.value})" in sentence({**NOBODY, "rule": rule.value})
