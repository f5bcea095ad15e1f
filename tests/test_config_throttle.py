"""The settings under `[throttle]`, and what they say in lines of rates."""

from __future__ import annotations

import pytest

from faircall.scheduling.dispatch_lines import line_of, policies_of
from faircall.scheduling.dispatch_policies import Rate
from faircall.scheduling.errors import BadValue
from faircall.server.config import ConfigError
from faircall.server.config_throttle import Throttle
from faircall.server.limits import Switches
from faircall.server.settings.load import load_settings
from faircall.server.throttle import lines_of, switches_of


def throttle(**keys: object) -> Throttle:
    """`method_calls=1` is `throttle.method-calls = 1`."""
    flags = {f"throttle.{key.replace('_', '-')}": (value, "--set") for key, value in keys.items()}
    return load_settings(flags, {}).throttle


def test_by_default_nothing_is_throttled() -> None:
    assert lines_of(throttle()) == ()
    assert lines_of(throttle(exempt=["ping"], paced=True)) == ()


def test_pulsars_names_and_the_plain_ones_are_the_same_keys() -> None:
    plain = throttle(calls=5, method_bytes=70, caller_calls=3, period_s=2)
    pulsar = throttle(
        dispatch_throttling_rate_in_msg=5,
        dispatch_throttling_rate_per_topic_in_byte=70,
        dispatch_throttling_rate_per_subscription_in_msg=3,
        rate_period_in_second=2,
    )
    assert plain == pulsar
    assert lines_of(plain) == (
        "server: calls=5 period-s=2",
        "each method: bytes=70 period-s=2",
        "callers of each method: calls=3 period-s=2",
    )


def test_both_names_of_a_key_are_an_error() -> None:
    with pytest.raises(ConfigError, match="calls"):
        throttle(calls=5, dispatch_throttling_rate_in_msg=6)


def test_a_line_that_is_no_rate_is_an_error_that_says_why() -> None:
    with pytest.raises(ConfigError, match="'metod a: calls=1': is about nothing that has a rate"):
        throttle(rates=["metod a: calls=1"])
    with pytest.raises(ConfigError, match="'calls=x' is not NAME=NUMBER"):
        throttle(rates=["method a: calls=x"])
    with pytest.raises(ConfigError, match="unknown key 'cals'"):
        throttle(rates=["method a: cals=1"])
    with pytest.raises(ConfigError, match="period_s = 0: must be 1 second or more"):
        throttle(rates=["method a: calls=1 period-s=0"])
    with pytest.raises(ConfigError, match="relative is for a method"):
        throttle(rates=["server: calls=1 relative"])
    with pytest.raises(ConfigError, match="period_s = 10000000000: at most 31622400"):
        throttle(rates=["method a: calls=1 period-s=10000000000"])
    for limit in ("running", "max-debt-periods"):
        with pytest.raises(ConfigError, match="4294967296: at most 2147483647"):
            throttle(rates=[f"method a: calls=1 {limit}=4294967296"])


def test_precise_and_entry_counting_exclude_each_other() -> None:
    assert switches_of(throttle(batches=True)).batches
    with pytest.raises(ConfigError, match="turn one of them off"):
        throttle(batches=True, precise=True)


def test_limits_of_methods_may_be_relative_to_arrivals() -> None:
    assert throttle(rates=["callers of a: calls=1 relative"]).rates
    assert lines_of(throttle(calls=5, method_calls=6, relative_to_arrival_rate=True)) == (
        "server: calls=5",
        "each method: calls=6 relative",
    )


def test_bulk_reads_are_refused() -> None:
    assert throttle(dispatcher_max_read_batch_size=0)
    with pytest.raises(ConfigError, match="there are no bulk reads"):
        throttle(dispatcher_max_read_batch_size=100)


def test_callers_without_a_backlog_and_dropped_calls_have_switches() -> None:
    assert not switches_of(throttle()).backlog_only
    assert not switches_of(throttle()).charge_dropped
    plain = throttle(limit_without_backlog=False, charge_dropped=True)
    pulsar = throttle(
        dispatch_throttling_on_non_backlog_consumer_enabled=False,
        dispatch_throttling_for_filtered_entries_enabled=True,
    )
    assert plain == pulsar
    switches = switches_of(plain)
    assert (switches.backlog_only, switches.charge_dropped) == (True, True)
    assert Switches.of(switches.line()) == switches


def test_a_scope_is_the_servers_or_each_process_s() -> None:
    assert not switches_of(throttle()).per_process
    assert switches_of(throttle(scope="per_process")).per_process
    with pytest.raises(ConfigError, match=r"scope.*per_process"):
        throttle(scope="per-broker")


def test_every_subject_has_its_source() -> None:
    policies = policies_of(
        [
            "server: calls=1",
            "service s: handler-ms=2",
            "resource gpu of a b: running=3",
            "each method: calls=4",
            "methods of s: calls=5",
            "method s.m: calls=6",
            "callers of each method: calls=7",
            "callers of service s: calls=8",
            "callers of s.m: calls=9",
            "caller ann of s.m: calls=10",
            "each caller: calls=11",
            "caller ann: calls=12",
            "exempt ping",
        ]
    )

    def calls(rate: Rate | None) -> int:
        assert rate
        return rate.calls

    assert calls(policies.server_rate()) == 1
    assert policies.groups["s"].handler_ms == 2
    assert policies.resources_of("a") == policies.resources_of("b") == ["gpu"]
    assert [calls(policies.method_rate(name)) for name in ("x", "s.x", "s.m")] == [4, 5, 6]
    assert [calls(policies.caller_rate(name, "bob")) for name in ("x", "s.x", "s.m")] == [7, 8, 9]
    assert calls(policies.caller_rate("s.m", "ann")) == 10
    assert [calls(policies.all_methods_rate(name)) for name in ("bob", "ann")] == [11, 12]
    assert policies.exempt == {"ping"}


@pytest.mark.parametrize("rate", [Rate(calls=3), Rate(bytes=1, period_s=9, block=True), Rate()])
def test_a_line_is_read_as_it_was_written(rate: Rate) -> None:
    found = policies_of([line_of("server", rate)]).server
    assert found
    assert (found.limits, found.period_s) == (rate.limits, rate.period_s)


def test_a_method_may_share_three_resources() -> None:
    lines = [f"resource r{number} of m: calls=1" for number in range(4)]
    assert len(policies_of(lines[:3]).resources_of("m")) == 3
    with pytest.raises(BadValue, match="method 'm' shares 4 resources"):
        policies_of(lines)
