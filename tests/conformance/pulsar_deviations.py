"""Where we do better than Pulsar, and what we do instead: the table for dispatch throttling.

The recorded answers that differ are all of `14_pulsar_variants`: limiters that Pulsar has had,
which differ among themselves. None of them is required.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Deviation:
    """Cases of a file by patterns, what Pulsar does, what we do, and the test that shows it."""

    component: str
    patterns: tuple[str, ...]
    pulsar: str
    ours: str
    shown_by: str


VARIANTS = "14_pulsar_variants"

DEVIATIONS = (
    Deviation(
        VARIANTS,
        ("PV-01",),
        "the classic limiter's period begins with its first use",
        "periods are aligned to the clock: all counters renew together, and none has a timer",
        "test_periods_are_aligned_to_the_clock",
    ),
    Deviation(
        VARIANTS,
        ("PV-02", "PV-03"),
        "applying a policy restarts the classic limiter's timer: often enough, nothing is renewed",
        "applying the same policy changes nothing, and a changed one does not move the period",
        "test_applying_a_policy_does_not_restart_the_period",
    ),
    Deviation(
        VARIANTS,
        ("PV-04",),
        "applying a policy gives the token bucket a new full bucket, and forgets any debt",
        "what was used stays used",
        "test_applying_a_policy_gives_no_new_quota",
    ),
    Deviation(
        VARIANTS,
        ("PV-07", "PV-08", "PV-09"),
        "the publish bucket fills by the millisecond, may hold unused tokens, and pauses for 16 ms "
        "more than it needs",
        "a period's quota is there at once or, paced, by parts; nothing unused is carried over, "
        "and the opening is exact",
        "test_a_paced_limit_fills_by_parts_and_keeps_nothing",
    ),
    Deviation(
        VARIANTS,
        ("PV-10",),
        "before PR #8611 a renewal forgot the debt, so concurrent readers always overshot",
        "a renewal pays one limit, the rest stays as debt",
        "test_a_renewal_pays_one_limit_and_no_more",
    ),
    Deviation(
        VARIANTS,
        ("PV-*",),
        "what else its several limiters answer, each by rules of its own",
        "one limiter with one rule for everything",
        "test_no_variant_is_required",
    ),
)


def deviation_of(component: str, name: str) -> Deviation | None:
    """The first row for a case, if there is one."""
    rows = (row for row in DEVIATIONS if row.component == component)
    return next((row for row in rows if any(fnmatchcase(name, one) for one in row.patterns)), None)
