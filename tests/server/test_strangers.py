"""The level of callers of whom nothing is known yet; time is handed in."""

from __future__ import annotations

import pytest

from faircall.server.janitor.sweep import Sweep
from faircall.server.janitor.unswept import EVERY_NS
from faircall.server.port import Port

from .test_sweep import Make, at, charge, make

__all__ = ["make"]

WITH_SERVICE = 'decay-scheduler.service-users = ["root"]\n'


def strangers_level(port: Port) -> int:
    return port.shared.segment.q[port.shared.names.strangers_level_word]


def looked(port: Port, rows: dict[str, int]) -> dict[str, int]:
    return {
        user: int(port.shared.names.identities.rows["looked"][row]) for user, row in rows.items()
    }


def test_strangers_have_the_lowest_level_in_use(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    assert strangers_level(port) == 0
    charge(port, one=30, two=35, three=35)
    sweep.tick(at(port, 0) + EVERY_NS)
    assert strangers_level(port) == 2
    charge(port, one=1000)
    sweep.tick(at(port, 1))
    assert strangers_level(port) == 3


def test_who_has_costs_is_no_stranger_after_two_looks(make: Make) -> None:
    port = make()
    sweep, names = Sweep(port), port.shared.names
    rows = charge(port, caller=10) | {"silent": names.identity("silent", 1)}
    sweep.tick(at(port, 0) + EVERY_NS)
    assert looked(port, rows) == {"caller": 0, "silent": 0}
    charge(port, caller=1)
    sweep.tick(at(port, 0) + 2 * EVERY_NS)
    assert looked(port, rows) == {"caller": 1, "silent": 0}


def test_a_sweep_makes_nobody_known_whom_no_look_has_found(make: Make) -> None:
    port = make()
    sweep = Sweep(port)
    sweep.tick(at(port, 1) - EVERY_NS // 2)
    rows = charge(port, caller=10)
    sweep.tick(at(port, 1))  # half the time of a look later
    assert looked(port, rows) == {"caller": 0}
    charge(port, caller=10)
    sweep.tick(at(port, 1) + EVERY_NS // 2)
    assert looked(port, rows) == {"caller": 0}  # found once
    charge(port, caller=10)
    sweep.tick(at(port, 1) + 2 * EVERY_NS)
    assert looked(port, rows) == {"caller": 1}


def test_another_who_gets_the_row_is_a_stranger_again(make: Make) -> None:
    port = make()
    sweep, names = Sweep(port), port.shared.names
    rows = charge(port, caller=10)
    sweep.tick(at(port, 1))
    assert names.evict([rows["caller"]]) == [rows["caller"]]
    assert names.identity("another", 1) == rows["caller"]
    assert looked(port, rows) == {"caller": 0}


def test_service_users_are_not_those_in_use(make: Make) -> None:
    port = make(WITH_SERVICE)
    sweep = Sweep(port)
    charge(port, root=1000, one=30, two=35, three=35)
    sweep.tick(at(port, 1))
    assert strangers_level(port) == 2


@pytest.mark.parametrize("off", ["callqueue.in-turn = false", "callqueue.newcomer-calls = 0"])
def test_without_turns_or_newcomers_they_have_level_0_as_in_hadoop(make: Make, off: str) -> None:
    port = make(off)
    sweep = Sweep(port)
    rows = charge(port, alone=10)
    sweep.tick(at(port, 1))
    assert (strangers_level(port), looked(port, rows)) == (0, {"alone": 1})


def test_other_schedulers_know_no_strangers(make: Make) -> None:
    port = make('scheduler.impl = "HistoryRpcScheduler"')
    sweep, names = Sweep(port), port.shared.names
    rows = {"silent": names.identity("silent", 1)}
    sweep.tick(at(port, 0) + EVERY_NS)
    assert (strangers_level(port), looked(port, rows)) == (0, {"silent": 1})
