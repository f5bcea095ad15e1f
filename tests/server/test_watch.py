"""A busy look for what comes at once, and how often it is dared again after looking in vain."""

from __future__ import annotations

import pytest

from faircall.server.reader.watch import MOST_PASSED, Watch

WATCH_NS = 100


class Seen:
    """Comes true at the n-th look (0: never); each look takes 10 ns."""

    def __init__(self) -> None:
        self.now_ns = 1 << 40
        self.looks = self.true_at = 0

    def clock(self) -> int:
        return self.now_ns

    def look(self) -> bool:
        self.now_ns += 10
        self.looks += 1
        return self.looks == self.true_at


@pytest.fixture
def seen() -> Seen:
    return Seen()


def occasions_used(watch: Watch, seen: Seen, count: int) -> list[int]:
    """The numbers of those of `count` occasions on which it looked."""
    used = []
    for number in range(count):
        seen.looks = 0
        assert not watch.sees(seen.look)
        if seen.looks:
            used.append(number)
    return used


def test_it_sees_what_comes_in_time(seen: Seen) -> None:
    seen.true_at = 7
    assert Watch(WATCH_NS, seen.clock).sees(seen.look)
    assert seen.looks == 7


def test_it_gives_up_when_the_time_is_over(seen: Seen) -> None:
    seen.true_at = 11
    assert not Watch(WATCH_NS, seen.clock).sees(seen.look)
    assert seen.looks == WATCH_NS // 10


def test_who_looks_in_vain_lets_more_and_more_occasions_pass(seen: Seen) -> None:
    used = occasions_used(Watch(WATCH_NS, seen.clock), seen, 60)
    assert used == [0, 2, 6, 14, 30, 46]
    assert MOST_PASSED == 15


def test_after_one_that_came_it_looks_at_each_again(seen: Seen) -> None:
    watch = Watch(WATCH_NS, seen.clock)
    assert occasions_used(watch, seen, 30) == [0, 2, 6, 14]
    seen.looks, seen.true_at = 0, 1
    assert watch.sees(seen.look)
    seen.true_at = 0
    assert occasions_used(watch, seen, 3) == [0, 2]


def test_without_a_time_it_never_looks(seen: Seen) -> None:
    assert occasions_used(Watch(0, seen.clock), seen, 5) == []
