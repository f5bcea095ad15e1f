"""Frequent items in bounded memory, against exact counts."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from faircall.scheduling.top_list import TopList

SECOND_NS = 1_000_000_000


def counted(keys: list[int], keep: int, most: int, fold_every: int = 0) -> TopList[int]:
    """The list after these calls; nothing decays."""
    top: TopList[int] = TopList(0, keep=keep, most=most)
    for number, key in enumerate(keys, start=1):
        top.tally(key).calls += 1
        if fold_every and number % fold_every == 0:
            top.fold(0)
    top.fold(0)
    return top


@pytest.mark.parametrize("seed", range(10))
def test_whoever_makes_more_than_his_part_of_all_calls_is_kept(seed: int) -> None:
    """Others make up a key for every second call, and come in any order."""
    rng = random.Random(seed)
    keys = [*range(1000, 2000), *(key for key in range(6) for _ in range(60 + 40 * key))]
    rng.shuffle(keys)
    exact, keep = Counter(keys), 15
    top = counted(keys, keep, most=rng.choice((16, 40, 200)), fold_every=rng.choice((0, 50)))
    heavy = {key for key, calls in exact.items() if calls > len(keys) / (keep + 1)}
    assert heavy, "the case tests nothing"
    assert heavy <= set(top.tallies)
    assert len(top.tallies) <= keep
    assert all(tally.calls <= exact[key] for key, tally in top.tallies.items())
    assert sum(t.calls for t in top.tallies.values()) + top.others.calls == len(keys)


def test_who_was_heavy_once_makes_room() -> None:
    """Without any decay: by what others weigh alone."""
    before = [key for key in range(4) for _ in range(10)]
    top = counted(before + [9] * 60, keep=4, most=4)
    assert 9 in top.tallies


def test_few_keys_are_counted_exactly() -> None:
    top = counted([1, 2, 1, 3, 1], keep=4, most=8, fold_every=2)
    assert {key: tally.calls for key, tally in top.tallies.items()} == {1: 3, 2: 1, 3: 1}
    assert top.others.calls == 0


def test_a_rate_is_right_from_the_start_and_follows_what_changes() -> None:
    top: TopList[str] = TopList(0)
    for second in range(1, 3):
        top.tally("a").calls += 100
        top.fold(second * SECOND_NS)
        assert top.tallies["a"].calls / top.seconds == pytest.approx(100)
    for second in range(3, 43):
        top.tally("a").calls += 10
        top.fold(second * SECOND_NS)
    assert top.tallies["a"].calls / top.seconds == pytest.approx(10, rel=0.01)


def test_figures_halve_and_who_stopped_is_forgotten() -> None:
    top: TopList[str] = TopList(0, half_life_ns=SECOND_NS)
    tally = top.tally("a")
    tally.calls, tally.cost, tally.busy_ns, tally.refused = 8.0, 40.0, 80.0, [4.0, 2.0]
    top.fold(SECOND_NS)
    assert (tally.calls, tally.cost, tally.busy_ns, tally.refused) == (4, 20, 40, [2, 1])
    for second in range(2, 40):
        top.fold(second * SECOND_NS)
    assert top.tallies == {}


def test_what_was_not_kept_is_summed_with_its_refusals() -> None:
    top: TopList[int] = TopList(0, keep=1, most=4)
    for key, refused in ((1, 0), (1, 0), (2, 1), (3, 1)):
        tally = top.tally(key)
        tally.calls += 1
        if refused:
            tally.refuse(0, 1)
    top.fold(0)
    assert (list(top.tallies), top.others.calls, top.others.refused) == ([1], 2, [2])
