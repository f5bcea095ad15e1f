from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.cost import (
    DEFAULT_WEIGHTS,
    NO_TIMES,
    DefaultCostProvider,
    Phase,
    PhaseTimes,
    WeightedTimeCostProvider,
    weighted_costs,
)
from faircall.scheduling.units import TimeUnit

from .strategies import longs, unhurried

nine = st.lists(longs, min_size=9, max_size=9)


@unhurried
@given(
    st.lists(nine, min_size=1, max_size=5), st.lists(st.integers(-9, 99), min_size=9, max_size=9)
)
def test_costs_of_many_are_the_costs_of_each(times: list[list[int]], weights: list[int]) -> None:
    provider = WeightedTimeCostProvider(weights)
    names = [phase.name.lower() for phase in Phase]
    each = [provider.cost(PhaseTimes.of(dict(zip(names, row, strict=True)))) for row in times]
    many = weighted_costs(np.array(times, np.int64), np.array(weights, np.int64))
    assert many.tolist() == each


def test_the_phases_that_hold_a_lock_weigh_most() -> None:
    assert len(DEFAULT_WEIGHTS) == len(Phase)
    assert DEFAULT_WEIGHTS[Phase.LOCKEXCLUSIVE] == 10 * DEFAULT_WEIGHTS[Phase.LOCKSHARED] == 100
    assert DEFAULT_WEIGHTS[Phase.QUEUE] == DEFAULT_WEIGHTS[Phase.LOCKWAIT] == 0


def test_a_call_costs_one_by_default() -> None:
    assert DefaultCostProvider().cost(NO_TIMES) == 1


def test_a_time_is_converted_when_it_is_asked_for() -> None:
    times = PhaseTimes.of({"queue": 3, "processing": -1}, TimeUnit.SECONDS)
    assert times.get(Phase.QUEUE, TimeUnit.MILLISECONDS) == 3000
    assert times.get(Phase.PROCESSING, TimeUnit.MILLISECONDS) == 0
