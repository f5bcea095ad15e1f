"""Mean response times of the levels, from what handlers have counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from faircall.scheduling.response_time import ResponseTimes
from faircall.server.admin.stats import PortStats
from faircall.server.janitor.level_times import LevelTimes
from faircall.server.janitor.sweep import Sweep
from faircall.server.port import Port
from faircall.shm.layout import LEVEL, MAX_LEVELS

from ..conftest import Load
from .small_port import small_port

MS, SECOND_NS = 1_000_000, 1_000_000_000
ON = "decay-scheduler.backoff.responsetime.enable = true\n"
GUIDE = ON + "decay-scheduler.backoff.responsetime.thresholds = ['10s','10s','10s','10s']\n"


class Level:
    """A port, the janitor's work on it, and what it has published."""

    def __init__(self, port: Port, decides: bool = True) -> None:
        self.port, self.columns = port, port.shared.columns
        self.times = LevelTimes(port.shared)
        self.times.configure(port.ipc.decay_scheduler, decides)
        layout = port.shared.segment.layout
        self._words = port.shared.segment.records(LEVEL, layout.level_words, MAX_LEVELS)

    def respond(self, level: int, *seconds: float) -> None:
        for number, each in enumerate(seconds):
            self.columns.responded(number % 2, level, int(each * SECOND_NS))

    @property
    def means_s(self) -> list[float]:
        means = self._words["mean_ns"].copy().view(np.float64)[:4] / SECOND_NS
        return [round(float(mean), 6) for mean in means]

    @property
    def backing_off(self) -> list[int]:
        return np.flatnonzero(self._words["backs_off"]).tolist()


@pytest.fixture
def guide(load: Load) -> Iterator[Level]:
    with small_port(load, GUIDE) as port:
        yield Level(port)


def test_the_example_of_hadoops_guide(guide: Level) -> None:
    """Level 1 may take 10 s and takes 12: levels 2 and lower back off, 0 and 1 proceed."""
    guide.respond(1, 11, 13)
    guide.respond(0, 0.1)
    guide.times.fold()
    assert guide.means_s == [0.1, 12, 0, 0]
    assert guide.backing_off == [2, 3]


def test_in_hadoops_mode_the_slow_level_itself_backs_off_too(load: Load) -> None:
    mode = GUIDE + "decay-scheduler.backoff.responsetime.mode = 'hadoop'\n"
    with small_port(load, mode) as port:
        level = Level(port)
        level.respond(1, 11, 13)
        level.times.fold()
        assert level.backing_off == [1, 2, 3]
        for _ in range(40):  # steady means of 6 s are 12 in the running system
            level.respond(1, 6)
            level.times.fold()
        assert level.means_s[1] == 12


def test_a_level_that_rests_lets_the_others_in_again(guide: Level) -> None:
    guide.respond(1, 12)
    guide.times.fold()
    assert guide.backing_off == [2, 3]
    guide.times.fold()
    assert (guide.means_s[1], guide.backing_off) == (6, [])


@pytest.mark.parametrize("mode", ["guide", "hadoop"])
def test_means_are_those_of_the_model(load: Load, mode: str) -> None:
    more = ON + f"decay-scheduler.backoff.responsetime.mode = '{mode}'\n"
    random = np.random.default_rng(7)
    with small_port(load, more) as port:
        level, model = Level(port), ResponseTimes(4, mode)  # type: ignore[arg-type]
        for _ in range(30):
            for _ in range(int(random.integers(0, 20))):
                at, took = int(random.integers(0, 4)), int(random.integers(0, 50))
                level.columns.responded(at % 2, at, took * SECOND_NS)
                model.record(at, took * SECOND_NS)
            level.times.fold()
            model.fold(0.5)
            assert level.means_s == [round(m, 6) for m in (model.mean / SECOND_NS).tolist()]
            thresholds = [t * MS for t in (10_000, 20_000, 30_000, 40_000)]
            assert level.backing_off == [n for n in range(4) if model.backs_off(n, thresholds)]


def test_a_successor_goes_on_where_the_dead_janitor_ended(guide: Level) -> None:
    guide.respond(1, 12, 12)
    guide.times.fold()
    successor = Level(guide.port)
    successor.respond(1, 30)
    successor.times.fold()
    assert guide.means_s[1] == (0.5 * 2 * 12 + 30) / (0.5 * 2 + 1)


def test_levels_that_are_no_more_count_as_the_last_one(guide: Level) -> None:
    guide.respond(9, 20)
    guide.times.fold()
    assert guide.means_s == [0, 0, 0, 20]


@pytest.mark.parametrize("more", ["", GUIDE + "scheduler.impl = 'DefaultRpcScheduler'\n"])
def test_nobody_backs_off_where_it_is_off_or_the_scheduler_knows_no_back_off(
    load: Load, more: str
) -> None:
    with small_port(load, more) as port:
        Level(port).respond(0, 500)
        Sweep(port).tick(port.created_ns + 5 * SECOND_NS)
        level = Level(port)
        assert (level.means_s[0], level.backing_off) == (500, [])


def test_a_sweep_ends_the_window_and_statistics_show_it(load: Load) -> None:
    unit = GUIDE + "[rpc]\nmetrics.timeunit = 'SECONDS'\n"
    with small_port(load, unit) as port:
        Level(port).respond(1, 11, 13)
        at_ns = port.created_ns + 5 * SECOND_NS
        Sweep(port).tick(at_ns)
        shown = PortStats(port, port.created_ns).snapshot(at_ns)["queue"]["levels"]
    assert [(row["mean_response_s"], row["responses"], row["backs_off"]) for row in shown] == [
        (0, 0, False),
        (12, 2, False),
        (0, 0, True),
        (0, 0, True),
    ]
