"""What a level will be, against the scheduler itself."""

from __future__ import annotations

import numpy as np
import pytest

from faircall.scheduling import decay
from faircall.scheduling.level_forecast import MOST_SWEEPS, levels_if_idle, sweeps_until_better

THRESHOLDS = decay.default_thresholds(4)


@pytest.mark.parametrize(("cost", "others"), [(1000, 60), (1000, 900), (7, 3), (1, 1000)])
@pytest.mark.parametrize("factor", [0.5, 0.9])
def test_it_is_what_the_sweeps_find(cost: int, others: int, factor: float) -> None:
    """The others are charged at each sweep what decays of theirs."""
    seen = np.zeros(2, np.int64)
    costs, found = np.array([cost, others]), []
    for _ in range(MOST_SWEEPS):
        costs = decay.sweep(seen, seen, costs, factor)
        costs[1] = others
        found.append(int(decay.levels_of(costs, int(costs.sum()), THRESHOLDS)[0]))
        if not found[-1]:
            break
    assert levels_if_idle(cost, others, THRESHOLDS, factor) == found


def test_who_is_alone_has_the_lowest_level_until_nothing_is_left() -> None:
    assert levels_if_idle(5, 0, THRESHOLDS, 0.5) == [3, 3, 0]


def test_a_level_that_is_never_left_has_no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircall.scheduling.level_forecast.MOST_SWEEPS", 3)
    assert levels_if_idle(1 << 40, 0, THRESHOLDS, 0.5) == []


def test_the_first_better_level_is_found() -> None:
    assert sweeps_until_better([3, 3, 2, 0], 3) == 3
    assert sweeps_until_better([3, 0], 0) is None
