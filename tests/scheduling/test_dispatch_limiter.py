"""The counters of one key: windows, settlements, changes, caps."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.dispatch_limiter import SETTLES_NS, Limiter
from faircall.scheduling.dispatch_policies import BYTES, CALLS, HANDLER, Rate
from faircall.scheduling.dispatch_rate import MOST_LIMIT, NEVER_NS

from .strategies import unhurried

MS, SECOND = 1_000_000, 1_000_000_000


@unhurried
@given(
    st.integers(1, 20),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 700), st.integers(1, 25)), max_size=120),
)
def test_k_periods_dispatch_at_most_k_limits_and_one_dispatch(
    limit: int, paced: bool, arrivals: list[tuple[int, int]]
) -> None:
    limiter = Limiter(Rate(calls=limit), 0, paced=paced)
    times_ms = list(accumulate(wait for wait, _ in arrivals))
    counts = [0] * ((times_ms[-1] // 1000 + 1) if times_ms else 1)
    for time_ms, (_, size) in zip(times_ms, arrivals, strict=True):
        if limiter.opens_ns(time_ms * MS) <= time_ms * MS:
            limiter.charge((size, 0, 0), time_ms * MS)
            counts[time_ms // 1000] += size
    sums = [0, *accumulate(counts)]
    for first in range(len(counts)):
        for past in range(first + 1, len(counts) + 1):
            assert sums[past] - sums[first] <= (past - first) * limit + 24


events = st.lists(
    st.tuples(st.integers(0, 1200), st.integers(0, 30), st.integers(0, 30), st.integers(0, 5000)),
    max_size=30,
)


@unhurried
@given(st.integers(1, 20), events)
def test_a_settlement_never_gives_away_what_others_used(
    limit: int, calls: list[tuple[int, int, int, int]]
) -> None:
    """Who had known what each call uses would have at least as much room once all are settled."""
    limiter, knowing = Limiter(Rate(calls=limit), 0), Limiter(Rate(calls=limit), 0)
    steps: list[tuple[int, int, int]] = []
    started_ms = 0
    for number, (wait_ms, _, _, lasts_ms) in enumerate(calls):
        started_ms += wait_ms
        steps += [(started_ms, 0, number), (started_ms + lasts_ms, 1, number)]
    positions: dict[int, tuple[int, int, int]] = {}
    now_ns = 0
    for time_ms, ends, number in sorted(steps):
        now_ns = time_ms * MS
        _, reserved, used, _ = calls[number]
        if ends:
            limiter.settle((reserved, 0, 0), (used, 0, 0), positions[number], now_ns)
        else:
            positions[number] = limiter.charge((reserved, 0, 0), now_ns)
            knowing.charge((used, 0, 0), now_ns)
    assert limiter.used(CALLS, now_ns) >= knowing.used(CALLS, now_ns)


@given(st.integers(1, 20), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=20))
def test_within_a_period_a_settlement_is_exact(limit: int, calls: list[tuple[int, int]]) -> None:
    limiter = Limiter(Rate(bytes=limit), 0)
    taken = [(limiter.charge((1, reserved, 0), 0), reserved, used) for reserved, used in calls]
    for positions, reserved, used in taken:
        limiter.settle((1, reserved, 0), (1, used, 0), positions, 999 * MS)
    assert limiter.used(BYTES, 999 * MS) == sum(used for _, used in calls)


def test_a_long_reservation_is_given_back_after_periods_that_could_not_pay_it() -> None:
    limiter = Limiter(Rate(handler_ms=1000), 0)
    positions = limiter.charge((1, 0, 60_000_000), 0)
    assert limiter.opens_ns(0) == 60 * SECOND
    limiter.settle((1, 0, 60_000_000), (1, 0, 2_500_000), positions, 2 * SECOND)
    assert limiter.used(HANDLER, 2 * SECOND) == 500_000


def test_every_dimension_has_to_have_room() -> None:
    limiter = Limiter(Rate(calls=10, bytes=100), 0)
    limiter.charge((1, 250, 0), 0)
    assert limiter.opens_ns(0) == 2 * SECOND
    assert (limiter.room(CALLS, 0), limiter.room(BYTES, 0)) == (9, 0)
    assert limiter.room(HANDLER, 0) == MOST_LIMIT


def test_an_opening_that_is_not_a_time() -> None:
    limiter = Limiter(Rate(running=2), 0)
    assert limiter.opens_ns(5) <= 5
    limiter.running = 2
    assert limiter.opens_ns(5) == SETTLES_NS
    limiter.apply(Rate(running=3), 5)
    assert limiter.opens_ns(5) <= 5
    limiter.apply(Rate(block=True, running=2), 5)
    assert limiter.opens_ns(5) == NEVER_NS


@given(st.lists(st.integers(1, 400), max_size=30))
def test_the_same_rate_again_and_again_is_no_fresh_quota(waits_ms: list[int]) -> None:
    rate = Rate(calls=10)
    applied, left_alone = Limiter(rate, 0), Limiter(rate, 0)
    for now_ns in (time_ms * MS for time_ms in accumulate(waits_ms)):
        applied.apply(Rate(calls=10), now_ns)
        for limiter in (applied, left_alone):
            limiter.charge((7, 0, 0), now_ns)
        assert applied.room(CALLS, now_ns) == left_alone.room(CALLS, now_ns)
        assert applied.opens_ns(now_ns) == left_alone.opens_ns(now_ns)


def test_a_dimension_that_is_limited_later_begins_with_nothing_used() -> None:
    limiter = Limiter(Rate(calls=10), 0)
    positions = limiter.charge((3, 500, 0), 0)
    limiter.apply(Rate(calls=5, bytes=1000), 100 * MS)
    assert (limiter.used(CALLS, 100 * MS), limiter.used(BYTES, 100 * MS)) == (3, 0)
    limiter.charge((0, 400, 0), 100 * MS)
    limiter.settle((3, 500, 0), (3, 0, 0), positions, 200 * MS)
    assert limiter.used(BYTES, 200 * MS) == 400


def test_a_relative_limit_pays_with_the_old_and_goes_on_with_the_new() -> None:
    limiter = Limiter(Rate(calls=5, relative=True), 0)
    limiter.charge((30, 0, 0), 0)
    assert limiter.opens_ns(0) == 6 * SECOND
    limiter.averaged((20.0, 0.0), SECOND)
    assert limiter.opens_ns(SECOND) == 2 * SECOND
    assert [limiter.room(CALLS, second * SECOND) for second in (1, 2)] == [0, 25]
    limiter.averaged((0.0, 0.0), 2 * SECOND + 1)
    assert [limiter.room(CALLS, at_ns) for at_ns in (2 * SECOND + 1, 3 * SECOND)] == [25, 5]


def test_debt_is_capped_where_the_rate_says_so() -> None:
    limiter = Limiter(Rate(calls=10, max_debt_periods=2), 0)
    limiter.charge((60, 0, 0), 0)
    assert limiter.opens_ns(0) == 3 * SECOND


def test_a_clock_that_steps_back_does_no_harm() -> None:
    limiter = Limiter(Rate(calls=10), 5 * SECOND)
    limiter.charge((15, 0, 0), 5 * SECOND)
    assert limiter.room(CALLS, 3 * SECOND) == 0
    assert limiter.room(CALLS, 6 * SECOND) == 5


def test_idle_is_what_a_new_one_would_be() -> None:
    limiter = Limiter(Rate(calls=10), 0)
    limiter.charge((11, 0, 0), 0)
    assert [limiter.is_idle(second * SECOND) for second in (0, 1, 2)] == [False, False, True]
    limiter.running = 1
    assert not limiter.is_idle(2 * SECOND)


@given(st.integers(0, 200), st.integers(1, 20), st.integers(0, 40), st.booleans())
def test_the_opening_of_a_relative_limit_is_when_there_is_room(
    charged: int, calls: int, average: int, paced: bool
) -> None:
    limiter = Limiter(Rate(calls=calls, relative=True), 0, paced=paced)
    limiter.averaged((float(average), 0.0), 1)
    limiter.charge((charged, 0, 0), 1)
    opens_ns = limiter.opens_ns(1)
    if opens_ns > 1:
        assert limiter.room(CALLS, opens_ns - 1) == 0
    assert limiter.room(CALLS, max(1, opens_ns)) > 0
