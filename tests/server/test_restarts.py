"""How long the successor of a dead child waits."""

from __future__ import annotations

import pytest

from faircall.server.supervisor.restarts import Restarts

QUICK, STEADY = 1_000_000, 5_000_000_000  # ns after its ready


def delays_ms(
    deaths: int, *, ready_ns: int | None, serving: bool = False, runs_user_code: bool = False
) -> list[int]:
    restarts = Restarts(runs_user_code)
    return [restarts.died(ready_ns=ready_ns, serving=serving) // 1_000_000 for _ in range(deaths)]


def test_a_child_that_cannot_start_is_tried_less_and_less_often() -> None:
    users = delays_ms(9, ready_ns=None, runs_user_code=True)
    assert users == [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]
    assert delays_ms(9, ready_ns=None) == [0, 100, 200, 400, 500, 500, 500, 500, 500]


def test_quick_deaths_are_delayed_from_the_fourth_on_and_never_for_long() -> None:
    assert delays_ms(8, ready_ns=QUICK) == [0, 0, 0, 100, 200, 250, 250, 250]


def test_calls_that_kill_their_handlers_delay_nobody_at_first() -> None:
    assert delays_ms(12, ready_ns=QUICK, serving=True) == [0] * 10 + [100, 200]


@pytest.mark.parametrize("serving", [True, False])
def test_who_lived_is_replaced_at_once_however_often(serving: bool) -> None:
    assert set(delays_ms(50, ready_ns=STEADY, serving=serving)) == {0}


def test_quick_deaths_say_nothing_about_the_next_start() -> None:
    restarts = Restarts(runs_user_code=True)
    for _ in range(20):
        restarts.died(ready_ns=QUICK, serving=False)
    assert restarts.died(ready_ns=None, serving=False) == 0
    assert restarts.count == 21


@pytest.mark.parametrize("ready_ns", [QUICK, STEADY])
def test_a_child_that_was_ready_can_start(ready_ns: int) -> None:
    restarts = Restarts(runs_user_code=True)
    for _ in range(9):
        restarts.died(ready_ns=None, serving=False)
    restarts.died(ready_ns=ready_ns, serving=False)
    assert restarts.died(ready_ns=None, serving=False) == 0


def test_the_delay_stays_bounded_for_ever() -> None:
    assert delays_ms(10_000, ready_ns=None, runs_user_code=True)[-1] == 5000
