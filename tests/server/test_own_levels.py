"""An operator's own scheduler in the janitor's sweep; time is handed in."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from faircall.server.janitor.own_levels import conf_of
from faircall.server.janitor.sweep import Sweep
from faircall.server.settings.declaration import ConfigError
from faircall.server.supervisor.failures import CannotStart
from faircall.shm.states import Phase

from ..conftest import Load
from .small_port import SMALL
from .test_sweep import Make, at, charge, levels, make
from .test_sweep_refresh import Refresh

UNBOUNDED = "scheduler.service-users.max-share = 1.0\n"  # as in Hadoop, level 0

__all__ = ["make"]

NUMBER = iter(range(1000))
MINE = """
import numpy as np

class ByCalls:
    asked = []

    def __init__(self, levels):
        self.levels_there = levels

    def levels(self, costs, calls, names):
        self.asked.append(dict(zip(names, zip(costs.tolist(), calls.tolist()))))
        costs[:] = 7  # a copy
        return calls // 10

class ByName:
    @classmethod
    def from_conf(cls, conf):
        made = cls()
        made.add = conf.integer("decay-scheduler.period-ms", 0) // 5000
        return made

    def levels(self, costs, calls, names):
        return [len(name) + self.add for name in names]

class Failing:
    errors = [ValueError("first"), ValueError("second"), KeyError("other")]

    def levels(self, costs, calls, names):
        if self.errors:
            raise self.errors.pop(0)
        return costs * 0 + 2

class Wrong:
    def levels(self, costs, calls, names):
        return costs / 3

class Raising:
    def __init__(self):
        raise RuntimeError("not today")

    def levels(self, costs, calls, names):
        return costs
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with own schedulers, in the folder of the server."""
    name = f"mine{next(NUMBER)}"
    monkeypatch.setattr("sys.path", ["/nowhere", *__import__("sys").path])
    (tmp_path / f"{name}.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return name


def impl(mine: str, name: str) -> str:
    return f'scheduler.impl = "{mine}:{name}"\n'


def errors(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What was logged: event and error, or reason."""
    found = []
    for record in caplog.records:
        told = record.exc_info[1] if record.exc_info else None
        found.append((record.getMessage(), f"{type(told).__name__}: {told}"))
    return found


def test_it_is_asked_at_each_sweep_with_costs_calls_and_names(make: Make, mine: str) -> None:
    port = make(impl(mine, "ByCalls"))
    sweep = Sweep(port)
    rows = charge(port, heavy=35, light=12, rare=3)
    assert levels(port, rows) == dict.fromkeys(rows, 0)
    sweep.tick(at(port, 1))
    assert levels(port, rows) == {"heavy": 3, "light": 1, "rare": 0}
    asked = __import__(mine).ByCalls.asked[-1]
    assert {name: asked[name] for name in rows} == {
        "heavy": (17, 35),
        "light": (6, 12),
        "rare": (1, 3),
    }
    rows |= charge(port, rare=900, fresh=10)
    sweep.tick(at(port, 2))
    assert levels(port, rows) == {"heavy": 0, "light": 0, "rare": 3, "fresh": 1}
    assert __import__(mine).ByCalls.asked[-1]["heavy"] == (8, 0)


def test_it_has_the_settings_of_its_port_and_its_answers_are_clamped(make: Make, mine: str) -> None:
    more = "decay-scheduler.period-ms = 10_000\nscheduler.priority.levels = 5\n"
    port = make(
        impl(mine, "ByName") + more + UNBOUNDED + 'decay-scheduler.service-users = ["robo"]'
    )
    rows = charge(port, x=1, abcdefgh=1, robo=1)
    Sweep(port).tick(at(port, 2))
    assert levels(port, rows) == {"x": 3, "abcdefgh": 4, "robo": 0}


def test_calls_of_who_had_the_row_before_are_not_counted(make: Make, mine: str) -> None:
    port = make(impl(mine, "ByCalls"))
    sweep = Sweep(port)
    (row,) = charge(port, alice=50).values()
    assert port.shared.names.evict([row]) == [row]
    assert charge(port, bob=12) == {"bob": row}
    sweep.tick(at(port, 1))
    assert __import__(mine).ByCalls.asked[-1]["bob"] == (6, 12)
    assert "alice" not in __import__(mine).ByCalls.asked[-1]


def test_the_settings_are_handed_over_as_text(load: Load) -> None:
    settings = load(SMALL + "scheduler.priority.levels = 3\n")
    conf = conf_of(settings.ports[0])
    assert conf.integer("scheduler.priority.levels", 0) == 3
    assert conf.number("decay-scheduler.decay-factor", 0) == 0.5
    assert conf.integers("history-scheduler.thresholds") == [250, 500]
    assert conf.boolean("decay-scheduler.charge-refused", False) is True


def test_one_that_raises_is_logged_once_for_each_kind_and_levels_stay(
    make: Make, mine: str, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    port = make()
    refresh = Refresh(port, load)
    rows = charge(port, heavy=70, light=30)
    refresh.sweep.tick(at(port, 1))
    before = levels(port, rows)
    assert before == {"heavy": 3, "light": 2}
    refresh(impl(mine, "Failing"))
    for period in (2, 3):
        refresh.sweep.tick(at(port, period))
        assert levels(port, rows) == before
    assert errors(caplog) == [
        ("scheduler failed", "ValueError: first"),
        ("scheduler failed", "KeyError: 'other'"),
    ]
    refresh.sweep.tick(at(port, 4))
    assert levels(port, rows) == {"heavy": 2, "light": 2}


def test_an_answer_that_is_no_levels_is_an_error_too(
    make: Make, mine: str, caplog: pytest.LogCaptureFixture
) -> None:
    port = make(impl(mine, "Wrong"))
    rows = charge(port, alice=1)
    Sweep(port).tick(at(port, 1))
    assert levels(port, rows) == {"alice": 0}
    assert "must give 2 integers, not an array of float64" in errors(caplog)[0][1]


def test_a_reload_changes_to_it_and_back_at_once(make: Make, mine: str, load: Load) -> None:
    port = make()
    refresh = Refresh(port, load)
    rows = charge(port, ab=700, c=300)
    refresh.sweep.tick(at(port, 1))
    seen = []
    for text in ("", impl(mine, "ByName"), "", impl(mine, "ByCalls"), impl(mine, "ByName")):
        refresh(text)
        seen.append(tuple(levels(port, rows).values()))
    assert seen == [(3, 2), (3, 2), (3, 2), (0, 0), (3, 2)]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Absent", "has no attribute 'Absent'"),
        ("Raising", "RuntimeError: not today ({folder}/{mine}.py:"),
        ("np", "'{mine}:np' is not a class"),
    ],
)
def test_one_that_cannot_be_loaded_stops_the_start_and_only_that(
    make: Make,
    mine: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    complaint: str,
) -> None:
    expected = complaint.format(folder=tmp_path, mine=mine)
    port = make(impl(mine, name))
    with pytest.raises(CannotStart) as told:
        Sweep(port)
    assert str(told.value).startswith(f"scheduler.impl = {mine}:{name}: ")
    assert expected in str(told.value)
    port.shared.phase.set(Phase.RUNNING, 1)
    rows = charge(port, alice=1)
    port.shared.names.identities.rows["level"][rows["alice"]] = 2
    sweep = Sweep(port)
    sweep.refresh()
    assert sweep.tick(at(port, 1))
    assert levels(port, rows) == {"alice": 2}
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.getMessage() == "scheduler cannot be loaded"
    assert expected in json.dumps(record.args, default=str)


def test_a_queue_of_ones_own_is_refused_with_the_reason(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"lies in shared memory.* scheduler.impl takes one"):
        load('[ipc.8020]\ncallqueue.impl = "mine:Queue"\n')
    with pytest.raises(ConfigError) as told:
        load('[ipc.8020]\ncallqueue.impl = "PriorityQueue"\n')
    assert "shared memory" not in str(told.value)


def test_check_config_accepts_it_without_loading_it(load: Load) -> None:
    settings = load('[ipc.8020]\nscheduler.impl = "no.such:Scheduler"\n')
    assert settings.ports[8020].scheduler.impl == "no.such:Scheduler"
