"""What we do where a limiter of Pulsar does something else, one test for each answer."""

from __future__ import annotations

from faircall.scheduling.dispatch_limiter import Limiter
from faircall.scheduling.dispatch_policies import CALLS, Rate

from .pulsar_cases import cases
from .pulsar_deviations import DEVIATIONS

MS = 1_000_000
TEN = Rate(calls=10)


def limiter(used: int, now_ms: int = 0, *, paced: bool = False) -> Limiter:
    """A limiter of 10 calls per second that was charged `used` calls."""
    made = Limiter(TEN, 0, paced=paced)
    made.charge((used, 0, 0), now_ms * MS)
    return made


def room(subject: Limiter, *times_ms: int) -> list[int]:
    return [subject.room(CALLS, at_ms * MS) for at_ms in times_ms]


def test_every_row_is_shown_by_a_test() -> None:
    assert {row.shown_by for row in DEVIATIONS} <= {
        name for name in globals() if name.startswith("test_")
    }


def test_periods_are_aligned_to_the_clock() -> None:
    assert room(limiter(10, 700), 999, 1000) == [0, 10]


def test_applying_a_policy_does_not_restart_the_period() -> None:
    for rate in (TEN, Rate(calls=20)):
        subject = limiter(10)
        subject.apply(rate, 900 * MS)
        assert room(subject, 900, 1000) == [rate.calls - 10, rate.calls]


def test_applying_a_policy_gives_no_new_quota() -> None:
    subject = limiter(25)
    subject.apply(TEN, 500 * MS)
    assert room(subject, 500, 1000, 2000) == [0, 0, 5]
    subject.apply(Rate(calls=10, period_s=2), 2500 * MS)
    assert room(subject, 2500, 3999, 4000) == [5, 5, 10]


def test_a_paced_limit_fills_by_parts_and_keeps_nothing() -> None:
    subject = limiter(0, paced=True)
    assert room(subject, 0, 99, 100, 150, 300, 999, 5000) == [1, 1, 2, 2, 4, 10, 1]
    owing = limiter(50)
    assert owing.opens_ns(0) == 5000 * MS
    assert limiter(55, paced=True).opens_ns(0) == 5500 * MS


def test_a_renewal_pays_one_limit_and_no_more() -> None:
    assert room(limiter(30), 999, 1000, 2000, 3000) == [0, 0, 0, 10]


def test_no_variant_is_required() -> None:
    assert [case.fields["must_match"] for case in cases("variants")] == (
        [False] * len(cases("variants"))
    )
