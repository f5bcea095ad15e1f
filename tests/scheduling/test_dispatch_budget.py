"""All levels together: reserve all or none, settle, give back, lose."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.dispatch_budget import Charge, DispatchBudget
from faircall.scheduling.dispatch_limiter import SETTLES_NS
from faircall.scheduling.dispatch_policies import (
    BYTES,
    CALLS,
    HANDLER,
    MethodPolicy,
    Policies,
    Rate,
    Templates,
)
from faircall.scheduling.dispatch_rate import MOST_LIMIT, NEVER_NS
from faircall.scheduling.dispatch_settings import CountedBytes, DispatchSettings

from .strategies import unhurried

MS, SECOND = 1_000_000, 1_000_000_000


def used(budget: DispatchBudget, dimension: int, now_ns: int = 0) -> list[int]:
    """What each level of alice's calls of `m` has used, the server first."""
    return [one.used(dimension, now_ns) for one in budget.counters.of("m", "alice", now_ns)]


def taken(budget: DispatchBudget, request_bytes: int = 0, now_ns: int = 0) -> Charge:
    charge = budget.try_take("m", "alice", 1, request_bytes, now_ns)
    assert charge is not None
    return charge


def every_level(rate: Rate) -> Policies:
    return Policies(server=rate, defaults=Templates(method=rate, caller=rate))


def test_a_call_that_one_level_holds_back_is_charged_to_none() -> None:
    policies = Policies(
        server=Rate(calls=10),
        methods={"m": MethodPolicy(callers={"alice": Rate(calls=1)})},
    )
    budget = DispatchBudget(policies)
    taken(budget)
    assert budget.try_take("m", "alice", 1, 0, 0) is None
    assert used(budget, CALLS) == [1, 1]
    assert budget.try_take("m", "bob", 1, 0, 0) is not None


calls = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from("ab"), st.sampled_from("xy"), st.integers(1, 9)),
    max_size=100,
)


@unhurried
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), calls)
def test_every_level_keeps_its_limit_and_counts_what_went(
    server: int, method: int, caller: int, arrivals: list[tuple[int, str, str, int]]
) -> None:
    policies = Policies(
        server=Rate(calls=server),
        defaults=Templates(method=Rate(calls=method), caller=Rate(calls=caller)),
    )
    budget, went = DispatchBudget(policies), Counter[tuple[str, int]]()
    times_ms = accumulate(wait for wait, *_ in arrivals)
    for time_ms, (_, name, who, size) in zip(times_ms, arrivals, strict=True):
        if budget.try_take(name, who, size, 0, time_ms * MS) is not None:
            for key in ("server", name, name + who):
                went[key, time_ms // 1000] += size
    limits = {0: caller, 1: method, 5: server}
    for key in {key for key, _ in went}:
        limit = limits[5 if key == "server" else len(key) % 2]
        periods = [period for name, period in went if name == key]
        for first in periods:
            for last in range(first, max(periods) + 1):
                sums = sum(went[key, period] for period in range(first, last + 1))
                assert sums <= (last - first + 1) * limit + 8


@unhurried
@given(calls)
def test_a_call_goes_at_the_opening_that_was_named_and_not_before(
    arrivals: list[tuple[int, str, str, int]],
) -> None:
    budget = DispatchBudget(every_level(Rate(calls=3)), DispatchSettings(paced=True))
    now_ns = 0
    for wait_ms, name, who, size in arrivals:
        now_ns += wait_ms * MS
        opens_ns = budget.opens_ns(name, who, now_ns)
        if opens_ns > now_ns:
            assert budget.try_take(name, who, size, 0, opens_ns - 1) is None
        now_ns = max(now_ns, opens_ns)
        assert budget.try_take(name, who, size, 0, now_ns) is not None


def test_what_is_unlimited_and_what_is_blocked() -> None:
    budget = DispatchBudget(Policies(methods={"m": MethodPolicy(method=Rate(block=True))}))
    assert budget.opens_ns("m", "alice", 7) == NEVER_NS
    assert budget.opens_ns("other", "alice", 7) <= 7
    assert budget.room("m", "alice", CALLS, 7) == 0
    assert budget.room("other", "alice", CALLS, 7) == MOST_LIMIT


# -- handler time and answers --------------------------------------------------------------------


def test_handler_time_is_reserved_at_the_average_and_settled() -> None:
    budget = DispatchBudget(every_level(Rate(handler_ms=1000)))
    budget.end(taken(budget), 400_000, 0, 0)
    second = taken(budget)
    assert used(budget, HANDLER) == [800_000] * 3
    budget.end(second, 100_000, 0, 0)
    assert used(budget, HANDLER) == [500_000] * 3
    for _ in range(2):
        taken(budget)
    assert budget.opens_ns("m", "alice", 0) == SECOND


def test_a_method_that_never_ran_goes_one_at_a_time_where_handler_time_is_limited() -> None:
    budget = DispatchBudget(Policies(methods={"m": MethodPolicy(method=Rate(handler_ms=10))}))
    first = taken(budget)
    assert budget.opens_ns("m", "bob", 0) == SETTLES_NS
    assert budget.try_take("m", "bob", 1, 0, 0) is None
    assert budget.try_take_item("m", "bob", 0) is None
    assert budget.try_take("other", "bob", 1, 0, 0) is not None
    budget.end(first, 25_000, 0, 0)
    assert budget.opens_ns("m", "bob", 0) == 2 * SECOND


def test_a_first_call_that_was_lost_lets_the_next_one_go() -> None:
    budget = DispatchBudget(every_level(Rate(handler_ms=10)))
    budget.lose(taken(budget), 0)
    taken(budget)


def test_bytes_of_answers_are_reserved_and_settled_as_the_setting_says() -> None:
    seen = {}
    for counted in CountedBytes:
        settings = DispatchSettings(counted_bytes=counted)
        budget = DispatchBudget(every_level(Rate(bytes=1000)), settings)
        budget.end(taken(budget, 30), 5, 200, 0)
        ended = used(budget, BYTES)
        taken(budget, 30)
        seen[counted.value] = ended[0], used(budget, BYTES)[0]
    assert seen == {"request": (30, 60), "answer": (200, 400), "both": (230, 460)}


# -- ends that are none --------------------------------------------------------------------------


def test_what_never_began_is_given_back() -> None:
    budget = DispatchBudget(every_level(Rate(calls=10, bytes=100, running=1)))
    charge = taken(budget, 50)
    assert budget.opens_ns("m", "alice", 0) == SETTLES_NS
    budget.give_back(charge, 0)
    assert used(budget, CALLS) == used(budget, BYTES) == [0] * 3
    assert budget.opens_ns("m", "alice", 0) <= 0


def test_a_call_whose_handler_died_stays_charged_and_its_second_run_too() -> None:
    budget = DispatchBudget(every_level(Rate(calls=10, running=1)))
    budget.lose(taken(budget), 0)
    budget.end(taken(budget), 1, 1, 0)
    assert used(budget, CALLS) == [2] * 3


def test_a_cap_counts_calls_that_run_whatever_the_period() -> None:
    budget = DispatchBudget(Policies(defaults=Templates(caller=Rate(running=2))))
    first, _ = taken(budget), taken(budget)
    assert budget.try_take("m", "alice", 1, 0, 100 * SECOND) is None
    assert budget.try_take("m", "bob", 1, 0, 100 * SECOND) is not None
    budget.end(first, 0, 0, 100 * SECOND)
    taken(budget, now_ns=100 * SECOND)


# -- what passes the gates -----------------------------------------------------------------------


def test_the_items_of_a_batch_are_charged_their_handler_time_and_answers_only() -> None:
    settings = DispatchSettings(on_batch_message=True, counted_bytes=CountedBytes.BOTH)
    budget = DispatchBudget(every_level(Rate(calls=1, bytes=100, handler_ms=100)), settings)
    budget.end(taken(budget, 90), 2000, 5, 0)
    assert budget.try_take("m", "alice", 1, 0, 0) is None
    item = budget.try_take_item("m", "alice", 0)
    assert item is not None
    budget.end(item, 3000, 7, 0)
    assert [used(budget, d)[0] for d in (CALLS, BYTES, HANDLER)] == [1, 102, 5000]


def test_a_call_without_a_backlog_is_free_but_counts_as_running() -> None:
    budget = DispatchBudget(every_level(Rate(calls=1, handler_ms=1, running=2)))
    budget.end(taken(budget), 5000, 0, 0)
    free = [budget.try_take_free("m", "alice", 0) for _ in range(3)]
    assert [charge is None for charge in free] == [False, False, True]
    assert free[0] is not None
    budget.end(free[0], 9000, 0, 0)
    assert [used(budget, d)[0] for d in (CALLS, HANDLER)] == [1, 5000]
    assert budget.try_take_free("m", "alice", 0) is not None


def test_what_is_blocked_is_blocked_without_a_backlog_too() -> None:
    budget = DispatchBudget(every_level(Rate(block=True)))
    assert budget.try_take_free("m", "alice", 0) is None


def test_what_is_dispatched_already_is_charged_whatever_the_gates_say() -> None:
    budget = DispatchBudget(every_level(Rate(calls=10)))
    budget.take("m", "alice", 30, 0, 0)
    assert budget.opens_ns("m", "alice", 0) == 3 * SECOND
