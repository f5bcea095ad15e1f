"""Renewal, payback, opening, pacing and refunds, as arithmetic on packed words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faircall.scheduling import dispatch_rate as rate
from faircall.scheduling.dispatch_rate import BLOCKED, MOST_LIMIT, NEVER_NS, NONE

from .strategies import unhurried

SECOND = 1_000_000_000

periods = st.integers(0, 2**26)  # of 100 s, they end before any clock does
useds = st.one_of(st.integers(0, 200), st.integers(0, 2**32 - 1))
limits = st.one_of(st.integers(1, 20), st.integers(1, MOST_LIMIT))
any_limits = st.one_of(limits, st.sampled_from([NONE, BLOCKED]))
lengths_ns = st.integers(1, 100).map(lambda seconds: seconds * SECOND)


@pytest.mark.parametrize(
    ("used", "rooms"), [(10, [0, 10]), (11, [0, 9, 10]), (30, [0, 0, 0, 10]), (0, [10, 10])]
)
def test_what_was_overdrawn_is_paid_back(used: int, rooms: list[int]) -> None:
    word = rate.pack(7, used)
    assert [rate.room(rate.renewed(word, 7 + n, 10), 10) for n in range(len(rooms))] == rooms


@given(periods, useds)
def test_a_word_holds_a_period_and_what_was_used_in_64_bits(period: int, used: int) -> None:
    word = rate.pack(period, used)
    assert (rate.period_of(word), rate.used_of(word)) == (period, used)
    assert 0 <= word < 2**64


@given(periods, useds, any_limits, st.integers(0, 50))
def test_a_late_renewal_is_as_many_timely_ones(
    period: int, used: int, limit: int, passed: int
) -> None:
    stepwise = word = rate.pack(period, used)
    for n in range(passed):
        stepwise = rate.renewed(stepwise, period + n + 1, limit)
    assert rate.renewed(word, period + passed, limit) == stepwise


@given(periods, useds, any_limits, any_limits, st.integers(0, 50))
def test_so_is_a_late_renewal_of_a_relative_limit(
    period: int, used: int, limit: int, following: int, passed: int
) -> None:
    stepwise = word = rate.pack(period, used)
    for n in range(passed):
        stepwise = rate.renewed(stepwise, period + n + 1, limit if n == 0 else following)
    assert rate.renewed_relative(word, period + passed, limit, following) == stepwise


@given(periods, useds, limits, st.integers(-5, 0))
def test_a_period_that_has_begun_is_not_renewed_again(
    period: int, used: int, limit: int, back: int
) -> None:
    word = rate.pack(period, used)
    assert rate.renewed(word, max(0, period + back), limit) == word


@given(periods, useds, limits, st.integers(0, 1000))
def test_no_renewal_forgives_more_than_its_limit(
    period: int, used: int, limit: int, passed: int
) -> None:
    later = rate.renewed(rate.pack(period, used), period + passed, limit)
    assert rate.used_of(later) == max(0, used - passed * limit)


@given(periods, useds, limits, lengths_ns)
def test_the_opening_is_the_first_renewal_that_leaves_room(
    period: int, used: int, limit: int, length_ns: int
) -> None:
    word = rate.pack(period, used)
    opens_ns = rate.opens_ns(word, limit, length_ns)
    assume(opens_ns < NEVER_NS)
    opening, rest = divmod(opens_ns, length_ns)
    assert rest == 0
    assert rate.room(rate.renewed(word, opening, limit), limit) > 0
    if opening > period:
        assert rate.room(rate.renewed(word, opening - 1, limit), limit) == 0


@pytest.mark.parametrize("opens_ns", [rate.opens_ns, rate.paced_opens_ns])
def test_the_three_states(opens_ns: object) -> None:
    assert callable(opens_ns)
    word = rate.pack(3, 10)
    assert opens_ns(word, NONE, SECOND) == 0
    assert opens_ns(word, BLOCKED, SECOND) == NEVER_NS
    assert opens_ns(word, 10, SECOND) == 4 * SECOND
    assert rate.room(word, NONE) == MOST_LIMIT
    assert [rate.room(word, limit) for limit in (BLOCKED, 9, 10, 11)] == [0, 0, 0, 1]


@pytest.mark.parametrize("opens_ns", [rate.opens_ns, rate.paced_opens_ns])
def test_a_debt_of_centuries_is_never_paid(opens_ns: object) -> None:
    assert callable(opens_ns)
    assert opens_ns(rate.pack(0, 2**32 - 1), 1, rate.MOST_PERIOD_S * SECOND) == NEVER_NS


def test_while_a_key_is_blocked_nothing_is_paid() -> None:
    word = rate.pack(0, 30)
    blocked = rate.changed(word, 1 * SECOND, 10, SECOND, BLOCKED, SECOND)
    again = rate.changed(blocked, 50 * SECOND, BLOCKED, SECOND, 10, SECOND)
    assert again == rate.pack(50, 20)


# -- changes -------------------------------------------------------------------------------------


@given(useds, limits, lengths_ns, st.integers(0, 10**12))
def test_the_same_limit_again_is_no_more_than_a_renewal(
    used: int, limit: int, length_ns: int, now_ns: int
) -> None:
    word = rate.pack(0, used)
    changed = rate.changed(word, now_ns, limit, length_ns, limit, length_ns)
    assert changed == rate.renewed(word, now_ns // length_ns, limit)


@given(useds, limits, limits, lengths_ns, lengths_ns, st.integers(0, 10**12))
def test_a_changed_limit_renews_with_the_old_one_and_keeps_what_was_used(
    used: int, old: int, new: int, old_ns: int, new_ns: int, now_ns: int
) -> None:
    changed = rate.changed(rate.pack(0, used), now_ns, old, old_ns, new, new_ns)
    assert rate.used_of(changed) == max(0, used - now_ns // old_ns * old)
    assert rate.period_of(changed) == now_ns // new_ns


def test_a_limit_that_is_removed_drops_its_counter() -> None:
    word = rate.pack(0, 30)
    removed = rate.changed(word, 5 * SECOND, 10, SECOND, NONE, SECOND)
    assert rate.changed(removed, 6 * SECOND, NONE, SECOND, 10, SECOND) == rate.pack(6, 0)


def test_a_relative_limit_counts_whole_arrivals() -> None:
    assert rate.relative_limit(3, 7.9) == 10
    assert rate.relative_limit(5, 1e30) == MOST_LIMIT


# -- charges -------------------------------------------------------------------------------------


def test_what_32_bits_cannot_hold_stays_at_their_end() -> None:
    assert rate.charged(rate.pack(9, 2**32 - 2), 5) == rate.pack(9, 2**32 - 1)
    assert rate.charged(rate.pack(9, MOST_LIMIT - 1), MOST_LIMIT) < rate.pack(9, 2**32 - 1)


def test_debt_may_be_capped() -> None:
    assert rate.capped(rate.pack(4, 60), 10, 2) == rate.pack(4, 30)
    assert rate.capped(rate.pack(4, 60), NONE, 2) == rate.pack(4, 60)


def test_a_refund_reaches_no_further_than_what_is_unpaid() -> None:
    """30 charged, the last 10 of them a reservation of which nothing was used."""
    word, total = rate.pack(0, 30), 30
    assert rate.refundable(word, total, 30, 10) == 10
    for period, unpaid in ((1, 10), (2, 10), (3, 0)):
        assert rate.refundable(rate.renewed(word, period, 10), total, 30, 10) == unpaid
    spent_by_others = rate.charged(rate.renewed(word, 3, 10), 10)
    assert rate.refundable(spent_by_others, total + 10, 30, 10) == 0
    assert rate.refunded(rate.pack(5, 7), 3) == rate.pack(5, 4)


# -- pacing --------------------------------------------------------------------------------------


@given(periods, useds, limits, lengths_ns, st.integers(0, 3), st.floats(0, 1, exclude_max=True))
def test_a_paced_gate_is_open_from_its_opening_on(
    period: int, used: int, limit: int, length_ns: int, later: int, part: float
) -> None:
    word = rate.pack(period, used)
    now_ns = (period + later) * length_ns + int(part * length_ns)
    seen = rate.renewed(word, now_ns // length_ns, limit)
    is_open = rate.paced_room(seen, limit, length_ns, now_ns) > 0
    assert is_open is (rate.paced_opens_ns(word, limit, length_ns) <= now_ns)
    assert is_open is (rate.paced_opens_ns(seen, limit, length_ns) <= now_ns)


def _delivered(
    sizes: list[int], used: int, limit: int, ends: int, *, paced: bool
) -> tuple[list[int], list[int]]:
    """Units and their times in each of `ends` periods, with a backlog of units of `sizes`."""
    opens = rate.paced_opens_ns if paced else rate.opens_ns
    word, now_ns, totals, times = rate.pack(0, used), 0, [0] * ends, []
    for size in sizes:
        now_ns = max(now_ns, opens(word, limit, SECOND))
        if now_ns >= ends * SECOND:
            break
        word = rate.charged(rate.renewed(word, now_ns // SECOND, limit), size)
        totals[now_ns // SECOND] += size
        times.append(now_ns)
    return totals, times


@unhurried
@given(st.lists(st.integers(1, 30), max_size=200), st.integers(0, 100), st.integers(1, 50))
def test_pacing_gives_every_period_the_same_total(sizes: list[int], used: int, limit: int) -> None:
    at_once, paced = (_delivered(sizes, used, limit, 20, paced=paced) for paced in (False, True))
    assert paced[0] == at_once[0]


@given(st.integers(0, 100), st.integers(1, 50))
def test_pacing_delivers_at_even_distances(used: int, limit: int) -> None:
    _, times = _delivered([1] * 200, used, limit, 5, paced=True)
    distances = [after - before for before, after in pairwise(times)]
    assert all(abs(distance - SECOND / limit) <= 1 for distance in distances)
