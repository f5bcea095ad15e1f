"""Whose waits have a histogram: the heaviest, and who keeps a place when others come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from faircall.server.janitor.watching import Watching
from faircall.shm.layout import Geometry
from faircall.shm.names import OTHERS
from faircall.shm.policy import QueuePolicy
from faircall.shm.shared import Shared

SMALL = Geometry(
    readers=1, handlers=1, slots=8, levels=4, turns=64, identities=16, methods=4, limiters=2,
    watched=2, small_pages=8, large_pages=2,
)  # fmt: skip


class Bench:
    def __init__(self) -> None:
        self.shared = Shared(SMALL, QueuePolicy(capacities=(8, 8, 8, 8)))
        self.names = self.shared.names

    def choose(self, **costs: int) -> list[str]:
        """Who has which place, after a sweep by a janitor that has just begun."""
        of_rows = np.zeros(SMALL.identities, np.int64)
        of_rows[OTHERS] = 10**6
        for user, cost in costs.items():
            of_rows[self.names.identity(user, 1)] = cost
        Watching(self.shared).choose(of_rows)
        return self.watched()

    def watched(self) -> list[str]:
        rows = self.names.identities.rows
        places = [int(word) & 0xFFFF_FFFF for word in self.shared.histograms.watched]
        for place, row in enumerate(places):
            assert not row or int(rows["watch"][row]) == place + 1
        assert np.count_nonzero(rows["watch"]) == sum(row > 0 for row in places)
        return [self.names.identities.name(row) if row else "" for row in places]


@pytest.fixture
def b() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.shared.doorbells.close()


def test_the_heaviest_are_watched_but_not_the_others(b: Bench) -> None:
    assert b.choose(ann=1, bob=3, eve=2) == ["bob", "eve"]


def test_who_has_no_costs_is_not_watched(b: Bench) -> None:
    assert b.choose(ann=0, bob=3) == ["bob", ""]


def test_places_are_kept_until_somebody_heavier_needs_one(b: Bench) -> None:
    b.choose(ann=1, bob=2)
    assert b.choose(ann=0, bob=0) == ["bob", "ann"]
    assert b.choose(ann=0, bob=1, eve=5) == ["bob", "eve"]
    assert b.choose(ann=9, bob=1, eve=5) == ["ann", "eve"]


def test_a_row_that_is_anothers_by_now_loses_its_place(b: Bench) -> None:
    b.choose(ann=1, bob=2)
    row = b.names.identities.find("bob")
    b.names.identities.rows["watch"][row] = 0  # as the eviction does
    b.names.evict([row])
    assert b.choose(ann=1, eve=7) == ["eve", "ann"]


def test_a_successor_puts_right_what_a_janitor_left_half_done(b: Bench) -> None:
    b.choose(ann=1, bob=2)
    b.names.identities.rows["watch"][:] = 0
    assert b.choose(ann=1, bob=2) == ["bob", "ann"]
