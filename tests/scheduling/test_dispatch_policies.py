"""Sources of limits: precedence, whole objects, templates, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.scheduling.dispatch_policies import (
    MethodPolicy,
    Policies,
    Rate,
    Templates,
    in_force,
    service_of,
)
from faircall.scheduling.dispatch_rate import BLOCKED, MOST_LIMIT, NONE
from faircall.scheduling.errors import BadValue


def rate(calls: int) -> Rate:
    return Rate(calls=calls)


def test_a_limit_is_none_a_number_or_blocked() -> None:
    assert Rate().limits == (NONE, NONE, NONE)
    assert Rate(calls=0, bytes=-7, handler_ms=3).limits == (NONE, NONE, 3000)
    assert Rate(calls=10, bytes=5, block=True).limits == (BLOCKED, 5, NONE)


def test_a_source_that_limits_nothing_is_absent() -> None:
    assert in_force(None, Rate(calls=0, bytes=0, period_s=9), rate(5)) == rate(5)
    for source in (Rate(block=True), Rate(running=1), Rate(handler_ms=1), Rate(bytes=1)):
        assert in_force(source, rate(5)) == source
    assert in_force(Rate(), None) is None


def test_the_sources_of_a_method_in_order() -> None:
    sources: dict[str, Any] = {
        "methods": {"svc.echo": MethodPolicy(method=rate(30))},
        "services": {"svc": Templates(method=rate(20))},
        "defaults": Templates(method=rate(10)),
    }
    seen = []
    for removed in ("methods", "services", "defaults", None):
        seen.append(Policies(**sources).method_rate("svc.echo"))
        sources.pop(removed or "", None)
    assert seen == [rate(30), rate(20), rate(10), None]


def test_the_sources_of_a_caller_in_order() -> None:
    full = Policies(
        methods={"svc.echo": MethodPolicy(caller=rate(3), callers={"alice": rate(4)})},
        services={"svc": Templates(caller=rate(2))},
        defaults=Templates(caller=rate(1)),
    )
    assert full.caller_rate("svc.echo", "alice") == rate(4)
    assert full.caller_rate("svc.echo", "bob") == full.caller_rate("svc.echo") == rate(3)
    assert full.caller_rate("svc.other", "alice") == rate(2)
    assert full.caller_rate("other", "alice") == rate(1)
    assert full.names("svc.echo", "alice")
    assert not full.names("svc.echo", "bob")


def test_the_first_source_replaces_the_next_as_a_whole() -> None:
    own = Rate(calls=50, period_s=2)
    policies = Policies(
        methods={"svc.echo": MethodPolicy(method=own)},
        services={"svc": Templates(method=Rate(calls=100, bytes=1000))},
    )
    assert policies.method_rate("svc.echo") == own


def test_server_and_service_budgets_have_one_source_each() -> None:
    policies = Policies(server=rate(9), groups={"svc": rate(8)})
    assert policies.server_rate() == rate(9)
    assert [policies.service_rate(name) for name in ("svc", "other")] == [rate(8), None]


def test_the_service_is_what_stands_before_the_last_dot() -> None:
    assert [service_of(name) for name in ("a.b.echo", "svc.echo", "echo")] == ["a.b", "svc", ""]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"period_s": 0}, r"\[throttle\]: period_s = 0: must be 1 second or more"),
        ({"calls": "10"}, r"\[throttle\]: calls = '10' is not a whole number"),
        ({"calls": True}, "calls = True is not a whole number"),
        ({"block": 1}, "block = 1 is not true or false"),
        ({"msgs": 1}, "unknown key 'msgs'; known are"),
        ({"bytes": MOST_LIMIT + 1}, "bytes = 2147483648: at most 2147483647 per period; shorten"),
        ({"handler_ms": 2_147_484}, "handler_ms = 2147484: at most 2147483 per period"),
        ({"max_debt_periods": -1}, "max_debt_periods = -1: must be 0 or more"),
    ],
)
def test_what_is_refused_and_what_is_said(values: dict[str, Any], says: str) -> None:
    with pytest.raises(BadValue, match=says):
        Rate.of(values, "[throttle]")
