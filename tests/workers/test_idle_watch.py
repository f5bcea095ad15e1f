"""When a handler looks for the next call, and when it has done so often enough in vain."""

from __future__ import annotations

import os

import pytest

from faircall.workers.idle_watch import ENOUGH, LONG, MOST, SLEPT, VAIN, IdleWatch

LIMIT_NS = 100
LOOK_NS = 10
SHORT_NS, LONG_NS = SLEPT * LIMIT_NS - 1, SLEPT * LIMIT_NS


class Gaps:
    """What comes between one idle time and the next; each look takes LOOK_NS."""

    def __init__(self, limit_ns: int = LIMIT_NS) -> None:
        self.now_ns = 1 << 40
        self.looks = self.true_at = 0
        self.watch = IdleWatch(limit_ns, lambda: self.now_ns)

    def look(self) -> bool:
        self.now_ns += LOOK_NS
        self.looks += 1
        return self.looks == self.true_at

    def sees(self, true_at: int = 0) -> bool:
        """Whether something is seen that comes with the n-th look (0: never)."""
        self.looks, self.true_at = 0, true_at
        self.watch.begin()
        return self.watch.is_worth_it and self.watch.sees(self.look)

    def sleep(self, *gaps_ns: int) -> None:
        """It was rung after each of these, without having looked."""
        for gap_ns in gaps_ns:
            self.watch.begin()
            self.now_ns += gap_ns
            self.watch.slept()

    def looks_at_all(self) -> bool:
        self.sees()
        return self.looks > 0


@pytest.fixture
def gaps() -> Gaps:
    return Gaps()


def test_it_looks_after_some_short_gaps_and_not_before(gaps: Gaps) -> None:
    for _ in range(ENOUGH):
        assert not gaps.looks_at_all()
        gaps.sleep(SHORT_NS)
    assert gaps.looks_at_all()


def test_it_sees_what_comes_in_time(gaps: Gaps) -> None:
    gaps.sleep(*[SHORT_NS] * ENOUGH)
    assert gaps.sees(7)
    assert gaps.looks == 7


def test_it_gives_up_when_the_time_is_over(gaps: Gaps) -> None:
    gaps.sleep(*[SHORT_NS] * ENOUGH)
    assert not gaps.sees(LIMIT_NS // LOOK_NS + 1)
    assert gaps.looks == LIMIT_NS // LOOK_NS


def test_long_gaps_are_none_that_it_looks_for(gaps: Gaps) -> None:
    gaps.sleep(*[LONG_NS] * 2 * ENOUGH)
    assert not gaps.looks_at_all()


def test_one_that_comes_now_and_then_after_a_short_gap_is_not_looked_for(gaps: Gaps) -> None:
    gaps.sleep(*[*[SHORT_NS] * LONG, LONG_NS] * 100)
    assert not gaps.looks_at_all()


def test_a_longer_gap_now_and_then_does_not_keep_it_from_looking(gaps: Gaps) -> None:
    gaps.sleep(*[*[SHORT_NS] * (LONG + 1), LONG_NS] * ENOUGH)
    assert gaps.looks_at_all()


def test_of_a_long_row_one_gap_may_be_longer_but_not_two(gaps: Gaps) -> None:
    gaps.sleep(*[SHORT_NS] * 10 * MOST)
    assert [gaps.looks_at_all() for _ in range(4)] == [True, True, False, False]
    gaps.sleep(*[SHORT_NS] * ENOUGH)
    assert [gaps.looks_at_all() for _ in range(4)] == [True, False, False, False]


def test_what_it_saw_makes_good_what_it_looked_for_in_vain(gaps: Gaps) -> None:
    gaps.sleep(*[SHORT_NS] * MOST)
    for _ in range(20):
        assert not gaps.sees()
        assert all(gaps.sees(1) for _ in range(VAIN))


def test_each_look_lets_others_have_the_processor(
    gaps: Gaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    yielded: list[int] = []

    def others_take_it() -> None:
        yielded.append(gaps.looks)
        gaps.now_ns += LIMIT_NS

    monkeypatch.setattr(os, "sched_yield", others_take_it)
    gaps.sleep(*[SHORT_NS] * ENOUGH)
    assert not gaps.sees(2)
    assert yielded == [1]


def test_without_a_time_it_never_looks() -> None:
    gaps = Gaps(limit_ns=0)
    gaps.sleep(*[0] * MOST)
    assert not gaps.looks_at_all()
