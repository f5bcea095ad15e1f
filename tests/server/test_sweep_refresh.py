"""What a reload does to levels and costs: another scheduler over the same history."""

from __future__ import annotations

import numpy as np
import pytest

from faircall.server.janitor.history_levels import HistoryLevels
from faircall.server.janitor.sweep import Sweep
from faircall.server.port import Port

from ..conftest import Load
from .small_port import SMALL
from .test_sweep import Make, at, charge, levels, make

UNBOUNDED = "scheduler.service-users.max-share = 1.0\n"  # as in Hadoop, level 0

__all__ = ["make"]

HISTORY = 'scheduler.impl = "HistoryRpcScheduler"\nhistory-scheduler.thresholds = [10, 40, 75]\n'


class Refresh:
    """`sweep` goes by the settings of other texts under [ipc.0]."""

    def __init__(self, port: Port, load: Load) -> None:
        self._port, self._load = port, load
        self.sweep = Sweep(port)

    def __call__(self, text: str) -> None:
        self._port.refresh(self._load(SMALL + text))
        self.sweep.refresh()


def test_levels_follow_at_once_from_costs_that_stay(make: Make, load: Load) -> None:
    port = make()
    refresh = Refresh(port, load)
    rows = charge(port, heavy=6000, middle=2600, light=1300, rare=100)
    refresh.sweep.tick(at(port, 1))
    costs = port.shared.names.identities.rows["decayed"].copy()
    two = "scheduler.priority.levels = 2\ndecay-scheduler.thresholds = [20]\n"
    for text, expected in (
        (two, (1, 1, 0, 0)),
        ('scheduler.impl = "DefaultRpcScheduler"\n', (0, 0, 0, 0)),
        (UNBOUNDED + 'decay-scheduler.service-users = ["heavy"]\n', (0, 3, 2, 0)),
        (HISTORY, (0, 0, 0, 0)),
        ("", (3, 2, 1, 0)),
    ):
        refresh(text)
        assert tuple(levels(port, rows).values()) == expected, text
    assert np.array_equal(port.shared.names.identities.rows["decayed"], costs)


def test_costs_decay_while_no_scheduler_goes_by_them(make: Make, load: Load) -> None:
    port = make()
    refresh = Refresh(port, load)
    rows = charge(port, heavy=800, light=200)
    refresh('scheduler.impl = "DefaultRpcScheduler"\ndecay-scheduler.decay-factor = 0.25\n')
    assert refresh.sweep.tick(at(port, 1))
    decayed = port.shared.names.identities.rows["decayed"]
    assert [int(decayed[row]) for row in rows.values()] == [200, 50]


def test_another_period_begins_when_the_last_sweep_was_due(make: Make, load: Load) -> None:
    port = make()
    refresh = Refresh(port, load)
    assert refresh.sweep.tick(at(port, 2.5))
    refresh("decay-scheduler.period-ms = 1000\n")
    assert not refresh.sweep.tick(at(port, 2.19))
    assert refresh.sweep.next_sweep_ns() == at(port, 2.2)
    assert refresh.sweep.tick(at(port, 2.2))
    refresh("decay-scheduler.period-ms = 10_000\n")
    assert refresh.sweep.next_sweep_ns() == at(port, 4.2)
    assert Sweep(port).next_sweep_ns() == at(port, 4.2)


def test_the_history_of_calls_stays_while_the_scheduler_does(make: Make, load: Load) -> None:
    port = make(HISTORY)
    refresh = Refresh(port, load)
    refresh.sweep.tick(1)
    rows = charge(port, heavy=80, light=15)
    refresh.sweep.tick(2)
    refresh(HISTORY.replace("10, 40, 75", "20, 90, 95"))
    assert levels(port, rows) == {"heavy": 1, "light": 0}
    refresh("")
    refresh(HISTORY)
    assert levels(port, rows) == {"heavy": 0, "light": 0}
    refresh.sweep.tick(3)
    charge(port, light=12)
    refresh.sweep.tick(4)
    assert levels(port, rows) == {"heavy": 0, "light": 1}


@pytest.mark.parametrize(("length", "counts"), [(20, [4, 9]), (6, [1, 5]), (1, [1, 0])])
def test_a_shorter_window_forgets_the_oldest(length: int, counts: list[int]) -> None:
    history = HistoryLevels(2, 20, [1])
    totals = np.zeros(2, np.uint64)
    for row, calls in ((0, 3), (1, 9), (0, 1)):
        history.follow(totals, [])
        totals = totals.copy()
        totals[row] += calls
    history.follow(totals, [])
    history.configure(length, [1])
    history.levels()
    assert history.counts.tolist() == counts
