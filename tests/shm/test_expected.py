"""What a call is expected to take, call after call."""

from __future__ import annotations

import random

import pytest

from faircall.shm.expected import adjusted

US, MS = 1_000, 1_000_000


def after(expected_ns: int, *spent_ns: int) -> int:
    return adjusted(expected_ns, spent_ns)


def test_the_first_call_is_what_is_expected() -> None:
    assert adjusted(0, [20 * US]) == 20 * US


def test_a_longer_call_doubles_it_at_most() -> None:
    assert adjusted(20 * US, [30 * US]) == 30 * US
    assert adjusted(20 * US, [5 * MS]) == 40 * US


def test_a_method_that_takes_a_thousand_times_as_long_is_known_after_ten_calls() -> None:
    assert after(20 * US, *[20 * MS] * 10) == 20 * MS


def test_a_call_that_was_interrupted_is_forgotten_after_a_hundred() -> None:
    assert after(20 * US, 5 * MS, *[20 * US] * 100) < 21 * US


def test_it_does_not_fall_below_the_mean() -> None:
    assert adjusted(MS, [20 * US], mean_ns=MS) == MS
    assert adjusted(20 * US, [10 * US], mean_ns=MS) == 20 * US  # and the mean does not raise it


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
def test_about_one_call_in_twenty_takes_longer(spread: float) -> None:
    chance, expected, longer = random.Random(1), 0, 0
    for _ in range(20_000):
        spent = int(chance.lognormvariate(10, spread))
        longer += spent > expected
        expected = adjusted(expected, [spent])
    assert 0.01 < longer / 20_000 < 0.08


def test_one_call_in_two_hundred_that_is_interrupted_does_not_make_a_method_long() -> None:
    chance, expected, seen = random.Random(1), 0, []
    for _ in range(20_000):
        usual = int(chance.lognormvariate(10, 0.3))  # 22 us
        spent = 4 * MS if chance.random() < 0.005 else usual
        expected = adjusted(expected, [spent])
        seen.append(expected)
    assert sum(each < 200 * US for each in seen) / len(seen) > 0.95
