"""How many units a bulk read takes."""

from __future__ import annotations

import pytest

from faircall.scheduling.dispatch_rate import MOST_LIMIT
from faircall.scheduling.dispatch_read import READ_BATCH, planned_units


@pytest.mark.parametrize(
    ("room_calls", "calls_per_unit", "planned"),
    [(10, 1, 10), (10, 6, 2), (8, 6, 2), (6, 6, 1), (0, 6, 0), (MOST_LIMIT, 1, READ_BATCH)],
)
def test_by_calls(room_calls: int, calls_per_unit: int, planned: int) -> None:
    assert planned_units(room_calls, MOST_LIMIT, calls_per_unit=calls_per_unit) == planned


@pytest.mark.parametrize(
    ("room_bytes", "bytes_per_unit", "planned"),
    [(1000, 300, 3), (1000, 5000, 1), (1000, None, 1), (0, 300, 0)],
)
def test_by_bytes(room_bytes: int, bytes_per_unit: int | None, planned: int) -> None:
    assert planned_units(MOST_LIMIT, room_bytes, bytes_per_unit=bytes_per_unit) == planned


def test_the_smallest_plan_counts() -> None:
    assert planned_units(10, 1000, bytes_per_unit=100, read_batch=4) == 4
    assert planned_units(3, 1000, bytes_per_unit=100, read_batch=4) == 3
    assert planned_units(10, 200, bytes_per_unit=100, read_batch=4) == 2
