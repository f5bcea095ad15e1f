"""What the shared table and the sweep answer otherwise than recorded, or cannot answer: one table.

A row allows the steps in `ops` of the cases of a component that match `pattern` to differ; all
their other steps must be answered as recorded. "*" stands for steps that the shared memory never
answers as Hadoop, in whatever case. `test_shared.py` finds rows that are no longer needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

EVERY = "*"


@dataclass(frozen=True)
class NotShared:
    """Steps in `ops` of the cases that match `pattern` may differ; `why` says for what reason."""

    component: str
    pattern: str
    ops: frozenset[str]
    why: str


def _row(component: str, pattern: str, ops: str, why: str) -> NotShared:
    return NotShared(component, pattern, frozenset(ops.split()), why)


UNCHARGED = "a caller is level 0 until it was charged, even with a threshold of 0 or less"
EVERY_TRY = "a last level that is full counts an overflow, too, as every full level that is tried"

NOT_SHARED = (
    _row("multiplexer", "weight_*", "construct", "a weight below 1 is an error at the start"),
    _row(
        "multiplexer", "all_weights_zero", "construct", "a weight below 1 is an error at the start"
    ),
    _row("multiplexer", "default_32_levels_overflow", "construct", "there are at most 14 levels"),
    _row("fair_call_queue", "weight_*", "construct", "a weight below 1 is an error at the start"),
    _row(
        "fair_call_queue",
        "level_out_of_range_*",
        "put add offer offer_timed poll peek take size sizes remaining is_empty overflowed drain",
        "no reader has such a level; one below the last is taken for the last",
    ),
    _row(
        "fair_call_queue",
        "iterator_*",
        "iterator",
        "calls of the table are taken, not looked through",
    ),
    _row("fair_call_queue", EVERY, "overflowed_after_blocked", EVERY_TRY),
    _row("call_queue_manager", EVERY, "overflowed_after_blocked", EVERY_TRY),
    _row(
        "call_queue_manager",
        EVERY,
        "not_expressed",
        "a test class of the recording, which a server cannot have",
    ),
    _row(
        "call_queue_manager",
        "swap_waits_*",
        "swap put_sizes",
        "a change of policy is done at once: calls that wait stay in the one table",
    ),
    _row(
        "call_queue_manager",
        "swap_bad_queue_conf_*",
        "swap",
        "a change of policy is all or nothing, the fail-over flag too",
    ),
    _row(
        "call_queue_manager",
        "swap_to_fewer_levels_*",
        "complete",
        "a charge has no level that could be out of range",
    ),
    _row(
        "decay_scheduler",
        "response_precision_floor",
        "dump_avg_response",
        "a mean fades below 100 ns, too: it is 0 where it is less than 0.0001 ns",
    ),
    _row(
        "decay_scheduler",
        "backoff_time_unit_mismatch",
        "backoff",
        "thresholds are milliseconds whatever the unit of the means",
    ),
    _row("decay_scheduler", "*threshold_zero", "priority", UNCHARGED),
    _row("decay_scheduler", "threshold_negative", "priority", UNCHARGED),
    _row(
        "decay_scheduler",
        EVERY,
        "metrics",
        "`faircall stats` tells the same under its own names (server/admin)",
    ),
    _row(
        "decay_scheduler",
        "static_priority*",
        "set_static admin_priority priority dump_cached_priority",
        "no caller's level can be pinned",
    ),
    _row(
        "decay_scheduler",
        "null_identity",
        "complete dump_users dump_total_decayed dump_unique_users dump_raw priority",
        "a missing identity is charged like any other",
    ),
    _row(
        "decay_scheduler",
        "context_identity_provider",
        "complete dump_users dump_total_decayed dump_unique_users dump_raw dump_cached_priority "
        "priority admin_priority",
        "a missing identity is charged like any other",
    ),
    _row(
        "decay_scheduler",
        "completion_level_out_of_range",
        "complete",
        "a charge has no level that could be out of range",
    ),
    _row(
        "decay_scheduler",
        "huge_sum_overflow_wraps",
        "dump_total_decayed priority",
        "totals stop at the end of their range and shares stay shares",
    ),
    _row(
        "decay_scheduler",
        "negative_cost_weight",
        "dump_users dump_total_decayed dump_unique_users dump_cached_priority",
        "a sweep leaves no decayed cost below 0: who is given something back has no credit",
    ),
)


def rows_of(component: str, name: str) -> Iterator[NotShared]:
    """The rows that a case has."""
    for row in NOT_SHARED:
        if row.component == component and fnmatchcase(name, row.pattern):
            yield row
