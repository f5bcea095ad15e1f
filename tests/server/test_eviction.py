"""Which identity rows are given to others, and which never."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from faircall.server.janitor.eviction import LEAST_IDLE_NS, Eviction
from faircall.shm.layout import SLOT, Geometry, word_of
from faircall.shm.names import OTHERS
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.shared import Shared

IDLE_NS = LEAST_IDLE_NS
SMALL = Geometry(
    readers=1, handlers=1, slots=8, levels=4, turns=64, identities=16, methods=4, limiters=2,
    small_pages=8, large_pages=2,
)  # fmt: skip


class Bench:
    """Identities, an eviction, and a clock that moves by ticks."""

    def __init__(self) -> None:
        self.shared = Shared(SMALL, QueuePolicy(capacities=(8, 8, 8, 8)))
        self.names = self.shared.names
        self.rows = self.names.identities.rows
        self.eviction = Eviction(self.shared, 1)
        self.now_ns = 10 * IDLE_NS
        self.keep = np.zeros(SMALL.identities, bool)

    def add(self, *users: str, used_ns: int = 1) -> list[int]:
        return [self.names.identity(user, used_ns) for user in users]

    def tick(self) -> list[int]:
        self.now_ns += IDLE_NS
        return self.eviction.tick(self.now_ns, self.keep)


@pytest.fixture
def b() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.shared.doorbells.close()


def test_an_idle_identity_goes_after_its_quarantine(b: Bench) -> None:
    (row,) = b.add("alice")
    reference = b.names.reference(row)
    assert b.tick() == []
    assert int(b.rows["quarantined"][row]) == 1
    assert b.tick() == [row]
    assert b.names.identities.find("alice") == -1
    assert b.names.reference(row) != reference


def test_who_comes_back_during_the_quarantine_stays(b: Bench) -> None:
    (row,) = b.add("alice")
    b.tick()
    b.names.identity("alice", b.now_ns + IDLE_NS)
    assert b.tick() == []
    assert int(b.rows["quarantined"][row]) == 0
    assert b.names.identities.find("alice") == row


def test_the_row_of_the_others_stays(b: Bench) -> None:
    b.tick()
    assert b.tick() == []
    assert b.names.identities.name(OTHERS) == "(others)"


def test_an_identity_with_waiting_calls_stays(b: Bench) -> None:
    (row,) = b.add("alice")
    b.rows["waiting"][row] = 1
    b.tick()
    assert b.tick() == []


@pytest.mark.parametrize("word", ["identity", "principal"])
def test_an_identity_that_a_slot_names_stays(b: Bench, word: str) -> None:
    (row,) = b.add("alice")
    own = b.shared.table.slot0 + 3 * SLOT_WORDS
    b.shared.segment.q[own + word_of(SLOT, word)] = b.names.reference(row)
    b.shared.table.enqueue([(3, 0)], [0])
    b.shared.table.claim(0, 1, [0], [0])  # it runs: nobody counts it as waiting any more
    b.rows["waiting"] = 0
    b.tick()
    assert b.tick() == []


def test_an_identity_that_still_owes_something_stays_while_there_is_room(b: Bench) -> None:
    (row,) = b.add("alice")
    b.rows["decayed"][row] = 1
    b.tick()
    assert b.tick() == []
    b.rows["decayed"][row] = 0
    assert b.tick() == [row]


def test_rows_to_be_kept_stay(b: Bench) -> None:
    alice, bob = b.add("alice", "bob")
    b.keep[alice] = True
    b.tick()
    assert b.tick() == [bob]


def test_in_a_full_table_the_least_debts_go_and_the_others_take_them(b: Bench) -> None:
    rows = b.add(*(f"user{n}" for n in range(SMALL.identities - 1)))
    assert b.names.identity("one too many", 1) == OTHERS
    for debt, row in enumerate(rows, start=100):
        b.rows["decayed"][row] = debt
    b.rows["level"][rows] = 2
    total = int(b.rows["decayed"].sum())
    b.tick()
    assert b.tick() == rows[:4]  # down to three quarters
    assert int(b.rows["decayed"].sum()) == total
    assert int(b.rows["decayed"][OTHERS]) == 100 + 101 + 102 + 103
    assert b.names.identity("one too many", 1) != OTHERS


def test_it_is_not_done_more_often_than_that_an_identity_can_become_idle(b: Bench) -> None:
    b.add("alice")
    b.tick()
    assert b.eviction.tick(b.now_ns + IDLE_NS // 2 - 1, b.keep) == []
    assert b.names.identities.find("alice") > 0
