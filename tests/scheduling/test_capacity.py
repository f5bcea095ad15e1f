from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling import capacity
from faircall.scheduling.errors import BadValue

weights = st.lists(st.integers(1, 100), min_size=1, max_size=10)


@given(weights, st.integers(1, 10**6))
def test_a_split_is_complete_and_in_proportion(parts: list[int], total: int) -> None:
    if total < sum(parts):
        with pytest.raises(BadValue):
            capacity.split(total, len(parts), parts)
        return
    split = capacity.split(total, len(parts), parts)
    unit = total // sum(parts)
    assert sum(split) == total
    assert split[1:] == [unit * part for part in parts[1:]]


def test_levels_share_equally_unless_weighted() -> None:
    assert capacity.split(10, 4) == [4, 2, 2, 2]
    assert capacity.split(10, 2, [7, 3]) == [7, 3]


@pytest.mark.parametrize("parts", [[1], [1, 2, 3], [0, 1], [-1, 2]])
def test_weights_that_do_not_fit_are_refused(parts: list[int]) -> None:
    with pytest.raises(BadValue):
        capacity.split(100, 2, parts)


def test_a_call_takes_the_first_level_from_its_own_down_that_has_room() -> None:
    assert capacity.level_with_room(0, [0, 0, 0], [1, 1, 1]) == 0
    assert capacity.level_with_room(0, [1, 1, 0], [1, 1, 1]) == 2
    assert capacity.level_with_room(1, [0, 1, 1], [1, 1, 1]) is None
