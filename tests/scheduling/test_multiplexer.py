from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.conf import Conf
from faircall.scheduling.errors import BadValue
from faircall.scheduling.multiplexer import (
    WeightedRoundRobinMultiplexer,
    advance,
    default_weights,
    following,
)


def test_of_any_fifteen_draws_eight_four_two_and_one_fall_on_the_levels() -> None:
    multiplexer = WeightedRoundRobinMultiplexer(default_weights(4))
    drawn = [multiplexer.draw() for _ in range(100)]
    for start in range(85):
        assert Counter(drawn[start : start + 15]) == {0: 8, 1: 4, 2: 2, 3: 1}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.integers(0, 50))
def test_every_level_gets_its_weight_of_any_full_turn(weights: list[int], skipped: int) -> None:
    multiplexer = WeightedRoundRobinMultiplexer(weights)
    for _ in range(skipped):
        multiplexer.draw()
    drawn = Counter(multiplexer.draw() for _ in range(sum(weights)))
    assert [drawn[level] for level in range(len(weights))] == weights


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_the_class_is_the_cursor_s_arithmetic(weights: list[int]) -> None:
    multiplexer = WeightedRoundRobinMultiplexer(weights)
    level, left = following(-1, weights)
    for _ in range(30):
        assert multiplexer.draw() == level
        level, left = advance(level, left, weights)


def test_the_example_of_the_guide_serves_level_1_once_in_a_hundred() -> None:
    conf = Conf({"ipc.faircallqueue.multiplexer.weights": "99,1"})
    multiplexer = WeightedRoundRobinMultiplexer.from_conf(2, conf)
    assert sum(multiplexer.draw() for _ in range(100)) == 1


@pytest.mark.parametrize(("levels", "text"), [(2, "1"), (2, "1,2,3"), (0, ""), (2, "1,-1")])
def test_weights_that_do_not_fit_are_refused(levels: int, text: str) -> None:
    conf = Conf({"ipc.faircallqueue.multiplexer.weights": text})
    with pytest.raises(BadValue):
        WeightedRoundRobinMultiplexer.from_conf(levels, conf)


def test_weights_fit_into_64_bits_whatever_the_number_of_levels() -> None:
    assert default_weights(70)[:9] == [2**62] * 8 + [2**61]
    with pytest.raises(BadValue):
        WeightedRoundRobinMultiplexer([])
