"""Levels of who came since the last sweep, over the shared arrays; time is handed in."""

from __future__ import annotations

import numpy as np
import pytest

from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.decay_settings import DecaySettings
from faircall.scheduling.identity import Caller
from faircall.server.janitor.sweep import Sweep
from faircall.server.janitor.unswept import EVERY_NS, UnsweptLevels
from faircall.server.port import Port

from ..conftest import Load
from .small_port import SMALL
from .test_sweep import PERIOD_NS, Make, at, charge, levels, make

AS_HADOOP = "callqueue.newcomer-calls = 0\n"  # nobody is cautious
UNBOUNDED = "scheduler.service-users.max-share = 1.0\n"  # as in Hadoop, level 0

__all__ = ["make"]


def look(port: Port, sweep: Sweep, number: int, after: int = 0) -> None:
    """That look after sweep `after`: no sweep is due."""
    assert not sweep.tick(at(port, after) + number * EVERY_NS)


def test_whom_no_sweep_has_found_is_levelled_by_the_costs_so_far(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, heavy=6000, middle=2600, light=1300, rare=100)
    look(port, sweep, 1)
    assert levels(port, rows) == {"heavy": 3, "middle": 2, "light": 1, "rare": 0}


def test_a_share_that_shrinks_lowers_the_level_again(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, first=10)
    look(port, sweep, 1)
    assert levels(port, rows) == {"first": 3}
    rows |= charge(port, flood=1000)
    look(port, sweep, 2)
    assert levels(port, rows) == {"first": 0, "flood": 3}


def test_whom_the_sweep_found_keeps_its_level_until_the_next(make: Make) -> None:
    port = make(AS_HADOOP)
    sweep = Sweep(port)
    rows = charge(port, old=900, small=100)
    assert sweep.tick(at(port, 1))
    rows |= charge(port, old=1, small=10_000, fresh=3000)
    look(port, sweep, 1, after=1)
    assert levels(port, rows) == {"old": 3, "small": 0, "fresh": 1}  # 3000 of 13,501
    assert sweep.tick(at(port, 2))
    assert levels(port, rows) == {"old": 0, "small": 3, "fresh": 1}


def test_a_flood_that_has_just_begun_is_levelled_by_what_it_asks_for_now(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, light=10_000)
    look(port, sweep, 1)
    rows |= charge(port, light=10, flood=200)
    look(port, sweep, 2)
    assert levels(port, rows) == {"light": 3, "flood": 3}  # 2 % of all, 95 % of what is new
    charge(port, light=10)
    look(port, sweep, 3)
    assert levels(port, rows) == {"light": 3, "flood": 3}  # it may have drawn breath
    for number in range(4, 20):
        charge(port, light=10)
        look(port, sweep, number)
    assert levels(port, rows) == {"light": 3, "flood": 0}


def test_what_waits_counts_as_asked_for_now_however_long_it_has_waited(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, crowd=10_000)
    waiting = port.shared.names.identities.rows["waiting"]
    waiting[rows["crowd"]] = 5000
    for number in range(1, 20):
        rows |= charge(port, light=10)
        look(port, sweep, number)
        assert levels(port, rows) == {"crowd": 3, "light": 0}
    waiting[rows["crowd"]] = 1
    rows |= charge(port, light=10)
    look(port, sweep, 20)
    assert levels(port, rows) == {"crowd": 3, "light": 3}  # now it is the only one


def test_whom_only_the_last_sweep_has_found_is_looked_at_until_the_next(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, light=10_000)
    assert sweep.tick(at(port, 1))
    rows |= charge(port, light=100, flood=3)
    assert sweep.tick(at(port, 2))
    charge(port, light=10, flood=100)
    look(port, sweep, 1, after=2)
    assert levels(port, rows) == {"light": 3, "flood": 3}
    charge(port, light=10)
    assert sweep.tick(at(port, 3))
    charge(port, light=10, flood=1000)
    look(port, sweep, 1, after=3)
    assert levels(port, rows) == {"light": 3, "flood": 0}  # two sweeps have found it: Hadoop's rule


def test_what_service_users_ask_for_is_nobodys_share_of_what_is_new(make: Make) -> None:
    port = make(UNBOUNDED + 'decay-scheduler.service-users = ["robot"]')
    sweep = Sweep(port)
    rows = charge(port, light=1000)
    look(port, sweep, 1)
    rows |= charge(port, robot=1000, fresh=3, light=7)
    look(port, sweep, 2)
    assert levels(port, rows) == {"robot": 0, "light": 3, "fresh": 2}


def test_who_owes_nothing_any_more_is_looked_at_like_a_new_one(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, gone=1, other=64)
    assert sweep.tick(at(port, 1))
    charge(port, gone=500)
    look(port, sweep, 1, after=1)
    assert levels(port, rows)["gone"] == 3


def test_levels_are_those_of_the_scheduler_of_the_policies(make: Make) -> None:
    port = make(
        AS_HADOOP + "decay-scheduler.thresholds = [10, 30, 55]\ndecay-scheduler.decay-factor = 0.1"
    )
    sweep = Sweep(port)
    pure = DecayRpcScheduler(DecaySettings(levels=4, thresholds=[0.1, 0.3, 0.55], factor=0.1))
    random = np.random.default_rng(2)
    for period in range(1, 12):
        for number in range(1, 6):
            users = [f"user{n}" for n in random.integers(0, 4 * period, 6)]
            costs = {user: int(random.integers(1, 60)) for user in users}
            rows = charge(port, **costs)
            for user, cost in costs.items():
                pure.ledger.charge(user, cost)
            look(port, sweep, number, after=period - 1)
            assert levels(port, rows) == {user: pure.level_of(Caller(user)) for user in costs}
        sweep.tick(at(port, period))
        pure.sweep()


def test_service_users_are_level_0_and_nobodys_share(make: Make) -> None:
    port = make(UNBOUNDED + 'decay-scheduler.service-users = ["robot"]')
    rows = charge(port, robot=1000, alice=6, bob=4)
    look(port, Sweep(port), 1)
    assert levels(port, rows) == {"robot": 0, "alice": 3, "bob": 2}


def test_a_row_that_begins_at_a_level_goes_no_lower_before_a_sweep(make: Make) -> None:
    port = make(AS_HADOOP)
    sweep = Sweep(port)
    rows = charge(port, flood=1000)
    look(port, sweep, 1)
    rows["grown"] = port.shared.names.identity("grown", 1, level=2)
    charge(port, grown=5)
    look(port, sweep, 2)
    assert levels(port, rows) == {"flood": 3, "grown": 2}
    charge(port, grown=3000)
    look(port, sweep, 3)
    assert levels(port, rows)["grown"] == 3
    charge(port, flood=100_000)
    look(port, sweep, 4)
    assert levels(port, rows)["grown"] == 2
    assert sweep.tick(at(port, 1))
    assert levels(port, rows)["grown"] == 0


def test_a_row_that_is_evicted_and_made_again_begins_anew(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, alice=100)
    look(port, sweep, 1)
    assert port.shared.names.evict(list(rows.values())) == list(rows.values())
    look(port, sweep, 2)
    again = charge(port, bob=1, carol=99)
    assert rows["alice"] in again.values()
    look(port, sweep, 3)
    assert levels(port, again) == {"bob": 0, "carol": 3}


def test_what_is_taken_back_counts_for_nobody(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, long=100, other=100)
    port.shared.columns.charge(2, rows["long"], -150, 0)
    look(port, sweep, 1)
    assert levels(port, rows) == {"long": 0, "other": 3}


def test_another_scheduler_levels_nobody_between_sweeps(make: Make) -> None:
    port = make('scheduler.impl = "DefaultRpcScheduler"')
    rows = charge(port, alice=100)
    look(port, Sweep(port), 1)
    assert levels(port, rows) == {"alice": 0}


def test_after_a_reload_newcomers_are_looked_at_at_once(make: Make, load: Load) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, heavy=70, light=30)
    look(port, sweep, 1)
    port.refresh(load(SMALL + "decay-scheduler.thresholds = [10, 80, 90]\n"))
    sweep.refresh()
    assert not sweep.tick(at(port, 0) + EVERY_NS + 1)
    assert levels(port, rows) == {"heavy": 1, "light": 1}


def test_it_looks_again_soon_only_while_there_is_traffic(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    charge(port, alice=1)
    look(port, sweep, 1)
    assert sweep.next_ns() == at(port, 0) + 2 * EVERY_NS
    look(port, sweep, 2)
    assert sweep.next_ns() == at(port, 1)  # nobody called since
    charge(port, alice=1)
    look(port, sweep, 10)
    assert sweep.next_ns() == at(port, 0) + 11 * EVERY_NS
    charge(port, alice=1)
    assert sweep.tick(at(port, 1))
    assert sweep.next_ns() == at(port, 1) + EVERY_NS


def test_a_look_before_its_time_does_nothing(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    rows = charge(port, alice=1)
    look(port, sweep, 1)
    charge(port, bob=1000)
    assert not sweep.tick(at(port, 0) + 2 * EVERY_NS - 1)
    assert levels(port, rows) == {"alice": 3}


def test_a_large_table_is_looked_at_less_often(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{UnsweptLevels.__module__}.WORD_NS", 10_000)  # as of a million rows
    looks = UnsweptLevels(make().shared)
    assert looks.tick(PERIOD_NS, [0.5], list, cautious=True)
    next_ns = looks.next_ns()
    assert next_ns is not None
    assert next_ns > PERIOD_NS + EVERY_NS
