"""The policy, in virtual time: nothing waits and nothing is sent."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from faircall.client.errors import (
    ConnectionFailed,
    ConnectionLost,
    InvalidAnswer,
    RpcClientError,
    local_deadline,
    remote_error,
)
from faircall.client.retry import Retry, RetryBudget, Tries, goes_elsewhere, may_repeat


def remote(code: int, **data: Any) -> RpcClientError:
    return remote_error(code, "no", data or None, "m", "tcp://h:1")


BUSY = remote(-32005, retriable=True)
STANDBY = remote(-32057, retriable=True)
REFUSED = ConnectionFailed("refused")
LOST = ConnectionLost("lost")
NO, IF_IDEMPOTENT, YES = (False, False), (False, True), (True, True)


@pytest.mark.parametrize(
    ("error", "repeated"),
    [
        (REFUSED, YES),
        (remote(-32005), YES),
        (remote(-32052), YES),
        (remote(-32057), YES),
        (BUSY, YES),
        (remote(-32005, retriable=False), IF_IDEMPOTENT),
        (remote(-32052, retriable=False), IF_IDEMPOTENT),
        (LOST, IF_IDEMPOTENT),
        (remote(-32053, retriable=False), IF_IDEMPOTENT),
        (remote(-32053), IF_IDEMPOTENT),
        (remote(-32053, retriable=True), YES),
        (remote(-32000, retriable=True), YES),
        (remote(-32000, retriable=False), NO),
        (remote(-32000, retriable="yes"), NO),
        (remote(-32601), NO),
        (remote(-32050), NO),
        (local_deadline("m", "tcp://h:1", 1.0), NO),
        (remote(-32051), NO),
        (remote(-32054), NO),
        (remote(-32055), NO),
        (InvalidAnswer("what?"), NO),
    ],
)
def test_what_may_be_repeated(error: RpcClientError, repeated: tuple[bool, bool]) -> None:
    assert (may_repeat(error, False), may_repeat(error, True)) == repeated


def test_what_goes_to_another_address() -> None:
    elsewhere = [REFUSED, remote(-32052), remote(-32057)]
    here = [LOST, BUSY, remote(-32053), remote(-32000), InvalidAnswer("what?")]
    assert [goes_elsewhere(error) for error in elsewhere + here] == [True] * 3 + [False] * 5


def delays(chance: float, floor_s: float = 0.0, **settings: Any) -> list[float]:
    retry = Retry(random=lambda: chance, **settings)
    return [retry.delay_s(repeat, floor_s) for repeat in range(1, 6)]


def test_the_back_off_doubles_up_to_its_cap() -> None:
    longest = delays(1.0, base_s=0.1, cap_s=0.5)
    assert longest == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])
    assert Retry(random=lambda: 1.0).delay_s(10**6) == 5.0


def test_the_jitter_is_full() -> None:
    assert delays(0.0) == [0.0] * 5
    assert delays(0.25, base_s=0.1) == pytest.approx([d / 4 for d in delays(1.0, base_s=0.1)])


def test_what_the_server_asks_for_is_a_floor_even_above_the_cap() -> None:
    assert delays(0.0, 7.0, cap_s=0.5) == [7.0] * 5
    assert delays(1.0, 0.1, base_s=0.1, cap_s=0.4) == pytest.approx([0.2, 0.3, 0.5, 0.5, 0.5])


def test_those_who_were_told_the_same_long_time_do_not_come_back_together() -> None:
    assert delays(1.0, 8.0, cap_s=0.5) == [12.0] * 5


def tries(addresses: int = 1, idempotent: bool = False, **settings: Any) -> Tries:
    """A call whose repeats wait for nothing but for what the server asks."""
    retry = Retry(**{"random": lambda: 0.0, **settings})
    return Tries(retry, RetryBudget(retry), addresses, idempotent=idempotent)


def until_it_stands(call: Tries, error: RpcClientError, left_s: float = math.inf) -> int:
    """How often a call is repeated that always fails so."""
    return next(n for n in itertools.count() if call.after(error, left_s) is None)


@pytest.mark.parametrize("error", [BUSY, REFUSED])
@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_a_call_is_made_so_many_times_at_most(error: RpcClientError, attempts: int) -> None:
    assert until_it_stands(tries(attempts=attempts), error) == attempts - 1


def test_without_a_policy_nothing_is_repeated_nor_moved() -> None:
    assert until_it_stands(Tries(None, RetryBudget(None), 3, idempotent=True), REFUSED) == 0


def test_an_error_that_may_not_be_repeated_ends_it() -> None:
    assert tries().after(LOST, math.inf) is None
    assert tries(idempotent=True).after(LOST, math.inf) == 0.0


def test_the_time_of_the_call_bounds_its_repeats() -> None:
    busy = remote(-32005, retry_after_ms=300)
    assert tries().after(busy, 0.3) is None
    assert tries().after(busy, 0.301) == 0.3
    assert tries().after(REFUSED, 0.0) is None
    assert tries(2).after(STANDBY, 0.0) is None
    assert tries().after(remote(-32005, retry_after_ms=1e400), math.inf) is None


@pytest.mark.parametrize("said", [-5, True, "soon", None, [1]])
def test_a_retry_after_that_is_no_time_is_none(said: object) -> None:
    assert tries().after(remote(-32005, retry_after_ms=said), 1.0) == 0.0


def test_every_address_is_tried_once_before_the_call_waits() -> None:
    call = tries(3, random=lambda: 1.0, base_s=0.1, attempts=3)
    waits = [call.after(STANDBY, math.inf) for _ in range(9)]
    assert waits == pytest.approx([0, 0, 0.1, 0, 0, 0.2, 0, 0, None])


def test_looking_for_a_server_that_serves_needs_no_second_attempt_and_no_token() -> None:
    call = tries(3, attempts=1, burst=0)
    assert [call.after(error, 1.0) for error in (REFUSED, STANDBY, STANDBY)] == [0.0, 0.0, None]


def test_a_busy_server_is_not_left_for_another_address() -> None:
    assert tries(3, random=lambda: 1.0, base_s=0.1).after(BUSY, 1.0) == 0.1


def test_a_repeat_takes_a_token_and_ten_calls_give_one() -> None:
    budget = RetryBudget(Retry(share=0.125, burst=2))
    assert [budget.withdraw() for _ in range(3)] == [True, True, False]
    budget.deposit(7)
    assert not budget.withdraw()
    budget.deposit(1)
    assert [budget.withdraw() for _ in range(2)] == [True, False]
    budget.deposit(1000)
    assert [budget.withdraw() for _ in range(3)] == [True, True, False]


def test_without_a_token_the_error_stands_but_not_reaching_a_server_costs_none() -> None:
    retry = Retry(share=0, burst=1, random=lambda: 0.0)
    budget = RetryBudget(retry)
    assert [Tries(retry, budget).after(BUSY, 1.0) for _ in range(2)] == [0.0, None]
    assert Tries(retry, budget).after(REFUSED, 1.0) == 0.0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"attempts": 0}, "attempts must be 1 or more, not 0"),
        ({"base_s": -1}, "0 <= base_s <= cap_s"),
        ({"base_s": 2, "cap_s": 1}, "0 <= base_s <= cap_s"),
        ({"base_s": math.nan}, "0 <= base_s <= cap_s"),
        ({"share": -0.1}, "share and burst cannot be -0.1"),
        ({"burst": math.nan}, "cannot be 0.1 and nan"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Retry(**settings)


def overload(retry: Retry, serve: Callable[[float], bool], calls: int) -> tuple[int, int, float]:
    """An open loop of a call per millisecond with 10 s each, at a server that refuses where
    `serve(now)` is false: how often it was asked, how many calls it served, and when the last one
    ended, in seconds."""
    budget, order = RetryBudget(retry), itertools.count()
    due = [(i / 1000, next(order), Tries(retry, budget), i / 1000 + 10) for i in range(calls)]
    served, last = 0, 0.0
    for asked in itertools.count():
        if not due:
            return asked, served, last
        last, _, call, deadline = heapq.heappop(due)
        if not call.sent:
            budget.deposit(1)
        call.sent += 1
        if serve(last):
            served += 1
        elif (delay_s := call.after(BUSY, deadline - last)) is not None:
            heapq.heappush(due, (last + delay_s, next(order), call, deadline))
    raise AssertionError


def test_under_overload_repeats_are_a_tenth_of_the_calls() -> None:
    chance = random.Random(7).random
    retry = Retry(random=chance)
    asked, served, _ = overload(retry, lambda now: False, 5000)
    assert served == 0
    assert 5000 * 1.095 < asked <= 5000 * 1.1 + 10
    unbounded = Retry(random=chance, burst=math.inf)
    assert overload(unbounded, lambda now: False, 5000)[0] == 4 * 5000


def test_a_short_refusal_is_outlived_by_all_calls_when_the_budget_has_room() -> None:
    def serve(now: float) -> bool:
        return not 1.0 <= now < 1.005

    asked, served, last = overload(Retry(random=random.Random(7).random), serve, 2000)
    assert served == 2000
    assert 2005 <= asked <= 2010
    assert last < 2.5
