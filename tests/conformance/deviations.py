"""Where we do better than the recorded behaviour: the one table, and what we do instead.

Each row names cases of a component by a pattern, the steps whose answers may differ, what Hadoop
does, what we do, and the test in `test_deviations.py` that shows it. `READINGS` are no cases: they
are places where Hadoop's guide and its code say different things, with the reading that we follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Deviation:
    """Cases that match `pattern`; their steps in `ops` may be answered differently."""

    component: str
    pattern: str
    ops: frozenset[str]
    hadoop: str
    ours: str
    shown_by: str


def _row(
    component: str, pattern: str, ops: str, *, hadoop: str, ours: str, shown_by: str
) -> Deviation:
    return Deviation(component, pattern, frozenset(ops.split()), hadoop, ours, shown_by)


DEVIATIONS = (
    _row(
        "decay_scheduler",
        "null_identity",
        "complete dump priority",
        hadoop="a call without an identity has a level, but recording its cost fails",
        ours="it is charged to the identity IdentityProvider.Unknown, which also has a level",
        shown_by="test_a_missing_identity_is_charged_like_any_other",
    ),
    _row(
        "decay_scheduler",
        "context_identity_provider",
        "complete dump priority admin_priority metrics",
        hadoop="a call without a context has a level, but recording its cost fails",
        ours="it is charged to the identity IdentityProvider.Unknown, which also has a level",
        shown_by="test_a_missing_identity_is_charged_like_any_other",
    ),
    _row(
        "decay_scheduler",
        "completion_level_out_of_range",
        "complete dump",
        hadoop="a call of a level that does not exist is charged, then its recording fails",
        ours="its response time counts for the nearest level",
        shown_by="test_a_call_of_a_level_that_is_gone_counts_for_the_nearest",
    ),
    _row(
        "call_queue_manager",
        "swap_to_fewer_levels_then_complete_old_call",
        "complete scheduler_dump",
        hadoop="a call given its level before a swap to fewer levels fails at its completion",
        ours="its response time counts for the nearest level",
        shown_by="test_a_call_of_a_level_that_is_gone_counts_for_the_nearest",
    ),
    _row(
        "fair_call_queue",
        "level_out_of_range_*",
        "put add offer offer_timed poll peek take size sizes remaining is_empty overflowed drain",
        hadoop="a level that does not exist is an IndexOutOfBoundsException, or passes by luck",
        ours="it is taken for the nearest level",
        shown_by="test_a_level_that_does_not_exist_is_taken_for_the_nearest",
    ),
    _row(
        "multiplexer",
        "weight_zero_*",
        "weights sequence",
        hadoop="the cursor enters a level of weight 0 and stays for 2^32 draws",
        ours="the cursor skips it: the level is served only when the others are empty",
        shown_by="test_a_weight_of_zero_skips_its_level",
    ),
    _row(
        "fair_call_queue",
        "weight_zero_*",
        "poll take",
        hadoop="a level of weight 0 is preferred for ever once the cursor has entered it",
        ours="the cursor skips it: the level is served only when the others are empty",
        shown_by="test_a_level_of_weight_zero_is_served_when_the_others_are_empty",
    ),
    _row(
        "multiplexer",
        "weight_negative_*",
        "construct weights sequence",
        hadoop="a negative weight holds the cursor for 2^32 draws and more",
        ours="it is refused: IllegalArgumentException",
        shown_by="test_a_negative_weight_is_refused",
    ),
    _row(
        "fair_call_queue",
        "weight_negative_*",
        "construct",
        hadoop="a negative weight holds the cursor for 2^32 draws and more",
        ours="it is refused: IllegalArgumentException",
        shown_by="test_a_negative_weight_is_refused",
    ),
    _row(
        "multiplexer",
        "default_32_levels_overflow",
        "weights",
        hadoop="the default weight 2^31 overflows and the cursor never leaves level 0",
        ours="weights have 64 bits, so all levels get their draws",
        shown_by="test_32_levels_have_positive_default_weights",
    ),
    _row(
        "config",
        "scheduler_factor_nan_accepted",
        "construct",
        hadoop="a decay factor of NaN is accepted, and every cost decays to 0",
        ours="it is refused: IllegalArgumentException",
        shown_by="test_a_decay_factor_that_is_not_a_number_is_refused",
    ),
    _row(
        "decay_scheduler",
        "huge_sum_overflow_wraps",
        "priority dump",
        hadoop="totals wrap at 64 bits; a negative one counts as no load, so all are level 0",
        ours="totals stop at 2^63 - 1 and shares stay shares",
        shown_by="test_totals_saturate",
    ),
    _row(
        "decay_scheduler",
        "backoff_time_unit_mismatch",
        "backoff",
        hadoop="millisecond thresholds are compared with means in rpc.metrics.timeunit",
        ours="thresholds are milliseconds whatever the unit of the means",
        shown_by="test_thresholds_are_milliseconds_whatever_the_unit_of_the_means",
    ),
    _row(
        "call_queue_manager",
        "swap_bad_*",
        "swap",
        hadoop="a swap that fails has already changed the fail-over flag and stopped the metrics",
        ours="a swap is all or nothing",
        shown_by="test_a_swap_that_fails_changes_nothing",
    ),
)

READINGS = (
    (
        "the guide's text has default thresholds of 0.125, 0.25, 0.5, its table 13, 25, 50",
        "the text's, as in the code",
        "test_default_thresholds_are_the_exact_halves",
    ),
    (
        'the guide says that "at most one user" is above 50 %; the code compares with >=',
        "the code: two users of exactly 50 % are both in the last level",
        "test_two_users_of_exactly_half_are_both_in_the_last_level",
    ),
    (
        "the guide lets a slow level back off the lower levels, on its mean response time; the "
        "code backs off the slow level, too, on a sum of means that decays",
        "the guide; decay-scheduler.backoff.responsetime.mode = hadoop gives the code's rule",
        "test_the_two_response_time_modes_on_the_example_of_the_guide",
    ),
)


def deviation_of(component: str, name: str) -> Deviation | None:
    """The row for a case, if there is one."""
    for deviation in DEVIATIONS:
        if deviation.component == component and fnmatchcase(name, deviation.pattern):
            return deviation
    return None
