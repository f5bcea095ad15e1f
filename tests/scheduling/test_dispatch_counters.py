"""Which counters there are, how they follow policies, and what a full table does."""

from __future__ import annotations

from faircall.scheduling.dispatch_counters import Counters
from faircall.scheduling.dispatch_policies import CALLS, MethodPolicy, Policies, Rate, Templates

SECOND = 1_000_000_000
TEN = Rate(calls=10)


def used(counters: Counters, method: str, caller: str, now_ns: int = 0) -> list[int]:
    return [limiter.used(CALLS, now_ns) for limiter in counters.of(method, caller, now_ns)]


def charge(counters: Counters, method: str, caller: str, calls: int, now_ns: int = 0) -> None:
    for limiter in counters.of(method, caller, now_ns):
        limiter.charge((calls, 0, 0), now_ns)


def test_templates_give_every_key_counters_of_its_own() -> None:
    counters = Counters(Policies(server=TEN, defaults=Templates(method=TEN, caller=TEN)), 0)
    charge(counters, "a", "alice", 3)
    charge(counters, "a", "bob", 2)
    assert used(counters, "a", "alice") == [5, 5, 3]
    assert used(counters, "b", "alice") == [5, 0, 0]


def test_a_service_budget_is_shared_by_its_methods() -> None:
    counters = Counters(Policies(groups={"svc": TEN}), 0)
    charge(counters, "svc.a", "alice", 3)
    assert used(counters, "svc.b", "bob") == [3]
    assert used(counters, "other.a", "alice") == []


def test_an_exempt_method_has_none() -> None:
    counters = Counters(Policies(server=TEN, exempt=frozenset({"admin.ping"})), 0)
    assert counters.of("admin.ping", "alice", 0) == ()


def test_a_change_reaches_only_the_keys_whose_rate_it_changes() -> None:
    before = Policies(
        methods={"own": MethodPolicy(method=Rate(calls=3))}, defaults=Templates(method=TEN)
    )
    counters = Counters(before, 0)
    for method in ("own", "other"):
        charge(counters, method, "alice", 8)
    counters.apply(
        Policies(methods=before.methods, defaults=Templates(method=Rate(calls=5))), SECOND
    )
    assert used(counters, "own", "alice", SECOND) == [5]
    assert used(counters, "other", "alice", SECOND) == [0]
    assert [one.room(CALLS, SECOND) for one in counters.of("other", "alice", SECOND)] == [5]


def test_a_limit_that_is_removed_begins_anew() -> None:
    policies = Policies(methods={"a": MethodPolicy(method=TEN)})
    counters = Counters(policies, 0)
    charge(counters, "a", "alice", 30)
    counters.apply(Policies(), 0)
    assert counters.of("a", "alice", 0) == ()
    counters.apply(policies, 0)
    assert used(counters, "a", "alice") == [0]


def test_a_key_that_comes_late_has_the_relative_limit_of_the_others() -> None:
    policies = Policies(defaults=Templates(method=Rate(calls=5, relative=True)))
    counters = Counters(policies, 0)
    counters.averaged("a", 20.0, 0.0, SECOND)
    at_ns = SECOND + SECOND // 2
    assert [one.room(CALLS, at_ns) for one in counters.of("a", "alice", at_ns)] == [25]
    assert [one.room(CALLS, at_ns) for one in counters.of("b", "alice", at_ns)] == [5]


def test_only_idle_counters_are_dropped() -> None:
    counters = Counters(Policies(defaults=Templates(caller=TEN)), 0)
    charge(counters, "a", "alice", 25)
    charge(counters, "a", "bob", 5)
    counters.forget_idle(SECOND)
    assert len(counters) == 1
    assert used(counters, "a", "alice", SECOND) == [15]


def test_callers_that_find_the_table_full_share_one_counter_per_method() -> None:
    policies = Policies(
        methods={"a": MethodPolicy(callers={"named": TEN})}, defaults=Templates(caller=TEN)
    )
    counters = Counters(policies, 0, most_callers=2)
    for caller in ("one", "two", "three", "four", "named"):
        charge(counters, "a", caller, 4)
    seen = [used(counters, "a", caller) for caller in ("one", "two", "three", "four", "named")]
    assert seen == [[4], [4], [8], [8], [4]]
    assert used(counters, "b", "one") == [0]


def test_what_was_used_in_common_is_not_forgotten_when_there_is_room_again() -> None:
    counters = Counters(Policies(defaults=Templates(caller=TEN)), 0, most_callers=1)
    charge(counters, "a", "one", 1)
    charge(counters, "a", "two", 25)
    counters.forget_idle(SECOND)
    assert used(counters, "a", "two", SECOND) == [15]
    assert used(counters, "a", "two", 3 * SECOND) == [0]
    charge(counters, "a", "two", 2, 3 * SECOND)
    assert used(counters, "a", "three", 3 * SECOND) != used(counters, "a", "two", 3 * SECOND)
