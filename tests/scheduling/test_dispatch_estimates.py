"""The averages that reservations are made of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.dispatch_estimates import MethodEstimate, next_average


def test_the_first_call_is_the_average() -> None:
    assert next_average(None, 800) == 800
    assert next_average(800, 1600) == 900


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_an_average_moves_towards_what_was_used_and_never_past_it(average: int, used: int) -> None:
    moved = next_average(average, used)
    assert min(average, used) <= moved <= max(average, used)


def test_a_method_that_never_ran_goes_one_at_a_time() -> None:
    estimate = MethodEstimate()
    assert not estimate.first_call_runs()
    estimate.running = 1
    assert estimate.first_call_runs()
    estimate.settled(500, 20)
    assert not estimate.first_call_runs()
    assert (estimate.handler_us, estimate.answer_bytes) == (500, 20)
