"""Every operation is cut short behind each of its stores: by SIGKILL, and by an exception.

What a dead process leaves depends on its stores alone, so these are all the worlds that there are.
"""

from __future__ import annotations

import pytest

from . import handlers, janitors, readers, twice
from .kill import Fate, stores
from .scenario import Scenario, Stage, endure_all

ONCE = [*readers.SCENARIOS, *handlers.SCENARIOS, *janitors.SCENARIOS]


def names(scenario: Scenario) -> str:
    return scenario.name


def behind_stores(stage: Stage) -> list[int]:
    return stores(stage.act.operation, stage.world.watched())


@pytest.mark.fault
@pytest.mark.parametrize("scenario", ONCE, ids=names)
def test_sigkill_behind_every_store(scenario: Scenario) -> None:
    assert endure_all(scenario, Fate.KILL, behind_stores) > 2


@pytest.mark.fault
@pytest.mark.parametrize("scenario", ONCE, ids=names)
def test_an_exception_behind_every_third_store(scenario: Scenario) -> None:
    assert endure_all(scenario, Fate.RAISE, lambda stage: behind_stores(stage)[::3]) > 0


@pytest.mark.fault
@pytest.mark.parametrize("scenario", twice.SCENARIOS, ids=names)
def test_sigkill_behind_every_store_of_who_rebuilds(scenario: Scenario) -> None:
    assert endure_all(scenario, Fate.KILL, behind_stores) > 2
