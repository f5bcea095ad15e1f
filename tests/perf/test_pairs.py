"""The ratio of what was measured in pairs, with its interval."""

from __future__ import annotations

import random

import pytest

from faircall.perf.pairs import LEAST_PAIRS, pooled_ratio, quantile, ratio_of

PAIRS, CALLS = 40, 200


def windows(factor: float, seed: int = 7) -> list[tuple[list[float], list[float]]]:
    """Latencies that differ by `factor`, on a machine that is slower for some pairs."""
    draw = random.Random(seed)
    found = []
    for _ in range(PAIRS):
        slow = draw.choice([1.0, 1.0, 1.0, 4.0])
        first, second = ([draw.expovariate(1.0) * slow for _ in range(CALLS)] for _ in range(2))
        found.append((first, [took * factor for took in second]))
    return found


def test_what_makes_no_difference_is_found_to_make_none() -> None:
    found = pooled_ratio(windows(1.0), 0.99)
    assert found.low < 1 < found.high
    assert found.half_width < 0.25


def test_a_difference_is_found_beside_a_machine_that_is_disturbed() -> None:
    found = pooled_ratio(windows(1.5), 0.99)
    assert found.low > 1.1
    assert found.low < 1.5 < found.high


def test_the_same_pairs_give_the_same_interval() -> None:
    assert pooled_ratio(windows(1.2), 0.5) == pooled_ratio(windows(1.2), 0.5)


def test_too_few_pairs_have_no_interval() -> None:
    few = windows(1.0)[: LEAST_PAIRS - 1]
    with pytest.raises(ValueError, match="too few"):
        pooled_ratio(few, 0.99)
    with pytest.raises(ValueError, match="too few"):
        ratio_of([(1.0, 1.0)] * (LEAST_PAIRS - 1))


def test_a_quantile_of_nothing_is_no_number() -> None:
    assert quantile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert quantile([], 0.5) != quantile([], 0.5)
