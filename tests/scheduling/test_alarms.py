"""The rules of alarms, at moments that the tests choose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faircall.scheduling.alarms import (
    Change,
    Reading,
    Rule,
    Shortage,
    Thresholds,
    Watch,
    expected_wait_ns,
    is_short,
    levels_of,
)

MS = 1_000_000
LIMITS = Thresholds(
    wait_ns=500 * MS,
    refused_per_s=20,
    latency_ns=500 * MS,
    share=0.5,
    starved=0.25,
    raise_after_ns=300 * MS,
    clear_after_ns=5000 * MS,
)
QUIET = Reading(waiting=2, handlers=2, wait_ns=0, refused_per_s=0, latency_ns=0, share=0.9, users=2)


def over(reading: Reading) -> set[Rule]:
    """The rules that are over their thresholds."""
    return {rule for rule, level in levels_of(reading, LIMITS).items() if level >= 1}


def changes(levels: list[float], step_ms: int = 250) -> list[tuple[int, Change]]:
    """What each look has changed, by the ms at which it was made."""
    watch, found = Watch(), []
    for number, level in enumerate(levels):
        if change := watch.look(number * step_ms * MS, level, LIMITS):
            found.append((number * step_ms, change))
    return found


def test_an_alarm_is_raised_when_its_rule_has_held_for_a_while() -> None:
    assert changes([0, 1, 1, 1, 1]) == [(750, Change.RAISED)]
    assert changes([0, 1, 0, 1]) == [(750, Change.RAISED)]
    assert changes([0, 1, 0, 0, 1, 0, 0, 1]) == []
    assert changes([0, 1, 1, 0.9, 0.9, 1, 1, 0, 0, 1]) == []
    assert changes([5, 5], step_ms=300) == [(300, Change.RAISED)]


def test_it_clears_when_the_figure_was_far_below_for_long_enough() -> None:
    raised = (500, Change.RAISED)
    assert changes([1, 1, 1, *[0.6] * 100]) == [raised]
    assert changes([1, 1, 1, *[0.4] * 21]) == [raised, (5750, Change.CLEARED)]
    assert changes([1, 1, 1, *[0.4] * 15, 0.6, *[0.4] * 20]) == [raised]


def test_it_can_be_raised_again() -> None:
    found = changes([1, 1, 1, *[0] * 21, 1, 1, 1])
    assert [change for _, change in found] == [Change.RAISED, Change.CLEARED, Change.RAISED]


def test_it_is_known_since_when_a_rule_holds() -> None:
    watch = Watch()
    for ms in (0, 250, 500):
        watch.look(ms * MS, 1.0 if ms else 0.0, LIMITS)
    assert (watch.active, watch.since_ns) == (False, 250 * MS)


@pytest.mark.parametrize(
    ("reading", "rules"),
    [
        (QUIET, set()),
        (replace(QUIET, wait_ns=500 * MS), {Rule.WAIT}),
        (replace(QUIET, refused_per_s=20.0), {Rule.REFUSALS}),
        (replace(QUIET, latency_ns=900 * MS), set()),  # the methods are slow, nobody waits
        (replace(QUIET, waiting=3, latency_ns=900 * MS), {Rule.LATENCY, Rule.SHARE}),
        (replace(QUIET, waiting=3), {Rule.SHARE}),
        (replace(QUIET, waiting=3, users=1), set()),  # who is alone takes it from nobody
        (replace(QUIET, waiting=3, share=0.4), set()),
    ],
)
def test_a_rule_is_over_its_threshold(reading: Reading, rules: set[Rule]) -> None:
    assert over(reading) == rules


def test_a_threshold_of_zero_turns_its_rule_off() -> None:
    off = replace(LIMITS, wait_ns=0, refused_per_s=0, latency_ns=0, share=0)
    worst = replace(QUIET, waiting=99, wait_ns=1e12, refused_per_s=1e6, latency_ns=1e12)
    assert set(levels_of(worst, off).values()) == {0.0}


def test_who_comes_now_waits_behind_all_others() -> None:
    assert expected_wait_ns(100, 50.0, 0) == 2e9
    assert expected_wait_ns(0, 0.0, 10**12) == 0
    assert expected_wait_ns(1, 0.0, 700 * MS) == 700 * MS  # nothing goes at all


# -- a machine that is short of processors -------------------------------------------------------

STARVING = Shortage(starved=0.6, outside=0.7, idle=0.0)
SLOW = replace(QUIET, waiting=30, wait_ns=900 * MS, latency_ns=700 * MS, share=0.4, users=5)


@pytest.mark.parametrize(
    ("shortage", "is_one"),
    [
        (STARVING, True),
        (replace(STARVING, starved=0.2), False),
        (replace(STARVING, outside=0.2), False),  # the server's own processes compete
        (replace(STARVING, idle=0.3), False),  # others have left some
    ],
)
def test_a_machine_is_short_of_processors(shortage: Shortage, is_one: bool) -> None:
    assert is_short(shortage, LIMITS) is is_one
    assert not is_short(shortage, replace(LIMITS, starved=0))


def test_what_would_be_quick_with_processors_is_for_want_of_them() -> None:
    assert over(SLOW) == {Rule.WAIT, Rule.LATENCY}
    assert over(replace(SLOW, shortage=STARVING)) == {Rule.PROCESSORS}


def test_what_would_be_slow_with_processors_too_is_not_for_want_of_them() -> None:
    assert over(replace(SLOW, wait_ns=2000 * MS, shortage=STARVING)) == {Rule.WAIT}


def test_who_takes_most_of_the_time_is_named_whatever_the_processors_do() -> None:
    hog = replace(SLOW, share=0.9, shortage=STARVING)
    assert over(hog) == {Rule.WAIT, Rule.LATENCY, Rule.SHARE}


def test_a_machine_without_processors_is_no_alarm_as_long_as_nobody_waits() -> None:
    assert over(replace(QUIET, shortage=STARVING)) == set()
