"""A real server over its capacity does what the pure classes do in virtual time; FIFO does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..daemon import serving
from .open_loops import (
    ARGS,
    LEVELS,
    SERVICE,
    Played,
    assert_levels,
    assert_served,
    played,
    simulated,
)


def run(folder: Path, queue: str) -> Played:
    with serving(folder, SERVICE, *ARGS, "--set", f"ipc.callqueue.impl={queue}") as daemon:
        return played(daemon)


@pytest.mark.stress
def test_users_are_served_as_in_the_simulation(tmp_path: Path) -> None:
    real = run(tmp_path, "FairCallQueue")
    outcome = simulated(real)
    assert outcome.levels[1:] == [LEVELS] * (len(outcome.levels) - 1)
    assert_levels(real)
    assert_served(real, outcome)


@pytest.mark.stress
def test_in_order_of_arrival_they_are_not(tmp_path: Path) -> None:
    """The test of the test: FIFO fails both checks."""
    real = run(tmp_path, "LinkedBlockingQueue")
    with pytest.raises(AssertionError):
        assert_levels(real)
    with pytest.raises(AssertionError):
        assert_served(real, simulated(real))
