"""Rows of times: who writes which, what is summed, and what a place that changes hands keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faircall.scheduling.latencies import bucket_of
from faircall.shm import states
from faircall.shm.histograms import NOT_RUN
from faircall.shm.layout import METHOD_HISTOGRAMS, SLOT, Geometry, word_of
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.shared import Shared

MS = 1_000_000
SMALL = Geometry(
    readers=2, handlers=2, slots=8, levels=4, turns=64, identities=16, methods=80, limiters=2,
    watched=2, small_pages=8, large_pages=2,
)  # fmt: skip


@pytest.fixture
def shared() -> Iterator[Shared]:
    one = Shared(SMALL, QueuePolicy(capacities=(8, 8, 8, 8)))
    yield one
    one.doorbells.close()


def watch(shared: Shared, place: int, user: str) -> int:
    """`user` has `place` from now on; the reference by which slots name it."""
    row = shared.names.identity(user, 1)
    shared.histograms.watched[place] = reference = shared.names.reference(row)
    shared.names.identities.rows["watch"][row] = place + 1
    return reference


def test_waits_and_runs_count_for_their_method_and_their_level(shared: Shared) -> None:
    for number in (0, 1):
        shared.histograms.of_handler(number).ran(3, 2, 1, 5 * MS, 7 * MS)
    wait, service = shared.histograms.wait(), shared.histograms.service()
    for times, ns in ((wait, 5 * MS), (service, 7 * MS)):
        for found in (times.methods[3], times.levels[2], times.total()):
            assert (found.count, found.sum_ns) == (2, 2 * ns)
            assert int(found.counts[bucket_of(ns)]) == 2
        assert sum(found.count for found in times.methods + times.levels) == 4
    assert shared.histograms.latency().total().count == 0


def test_a_call_that_did_not_run_has_waited_only(shared: Shared) -> None:
    shared.histograms.of_handler(0).ran(0, 0, 1, MS, NOT_RUN)
    assert shared.histograms.wait().total().count == 1
    assert shared.histograms.service().total().count == 0


def test_sums_go_on_from_0_where_64_bits_end(shared: Shared) -> None:
    """Of thousands of calls that always wait: after weeks. A watched caller's, too."""
    reference, handler = watch(shared, 0, "alice"), shared.histograms.of_handler(0)
    long_ns = (1 << 64) - MS
    for ns in (long_ns, 3 * MS):
        handler.ran(0, 0, reference, ns, ns)
        shared.columns.responded(0, 0, ns, 1)
    for times in (shared.histograms.wait(), shared.histograms.service()):
        assert (times.methods[0].sum_ns, times.levels[0].count) == (2 * MS, 2)
    assert int(shared.columns.levels["response_ns"][0, 0]) == 2 * MS


@pytest.mark.parametrize("ns", [0, 127, 128, 2047, 2048, 4095, 4096, MS, 10**15, 1 << 62])
def test_what_is_counted_in_line_is_counted_in_the_bucket_of_the_time(
    shared: Shared, ns: int
) -> None:
    shared.histograms.of_handler(0).ran(0, 0, 1, ns, ns)
    slot = call(shared, 0, method=0, level=0, arrived_ns=0)
    shared.histograms.of_reader(0).answered([slot], ns)
    histograms = shared.histograms
    for times in (histograms.wait(), histograms.service(), histograms.latency()):
        assert times.total().counts.nonzero()[0].tolist() == [bucket_of(ns)]


def test_methods_without_a_row_share_the_last_one(shared: Shared) -> None:
    for method in (METHOD_HISTOGRAMS - 2, METHOD_HISTOGRAMS - 1, METHOD_HISTOGRAMS, 79):
        shared.histograms.of_handler(1).ran(method, 0, 1, MS, MS)
    found = [histogram.count for histogram in shared.histograms.service().methods]
    assert len(found) == METHOD_HISTOGRAMS
    assert found[-2:] == [1, 3]


def call(shared: Shared, slot: int, method: int, level: int, arrived_ns: int) -> int:
    own = shared.table.slot0 + slot * SLOT_WORDS
    word = method | level << states.SCHEDULED_SHIFT
    shared.segment.q[own + word_of(SLOT, "call")] = word
    shared.segment.q[own + word_of(SLOT, "arrived_ns")] = arrived_ns
    return slot


def test_readers_count_from_arrival_to_answer(shared: Shared) -> None:
    slots = [call(shared, slot, slot, 3, arrived_ns=MS) for slot in (0, 5)]
    shared.histograms.of_reader(0).answered(slots, 4 * MS)
    shared.histograms.of_reader(1).answered(slots[1:], 0)  # a clock that is behind
    latency = shared.histograms.latency()
    assert [latency.methods[method].count for method in (0, 5)] == [1, 2]
    assert (latency.levels[3].count, latency.levels[3].sum_ns) == (3, 6 * MS)


def test_waits_of_the_watched_are_told_apart(shared: Shared) -> None:
    ann, bob = watch(shared, 0, "ann"), watch(shared, 1, "bob")
    eve = shared.names.reference(shared.names.identity("eve", 1))
    for who in (ann, bob, bob, eve):
        shared.histograms.of_handler(0).ran(0, 0, who, 8 * MS, MS)
    shared.histograms.of_handler(1).ran(0, 0, bob, 8 * MS, MS)
    found = shared.histograms.wait_of_watched()
    assert {row: histogram.count for row, histogram in found.items()} == {
        ann & 0xFFFF_FFFF: 1,
        bob & 0xFFFF_FFFF: 3,
    }
    assert found[bob & 0xFFFF_FFFF].quantile(0.99) == pytest.approx(8 * MS, rel=1 / 8)


def test_who_gets_the_place_of_another_begins_with_nothing(shared: Shared) -> None:
    ann = watch(shared, 0, "ann")
    handlers = [shared.histograms.of_handler(number) for number in (0, 1)]
    for handler in handlers:
        handler.ran(0, 0, ann, MS, MS)
    bob = watch(shared, 0, "bob")
    assert shared.histograms.wait_of_watched()[bob & 0xFFFF_FFFF].count == 0
    handlers[0].ran(0, 0, bob, 3 * MS, MS)
    found = shared.histograms.wait_of_watched()[bob & 0xFFFF_FFFF]
    assert (found.count, found.sum_ns) == (1, 3 * MS)


def test_a_handler_that_dies_while_it_clears_a_row_leaves_it_nobodys(shared: Shared) -> None:
    ann = watch(shared, 0, "ann")
    handler = shared.histograms.of_handler(0)
    handler.ran(0, 0, ann, MS, MS)
    bob = watch(shared, 0, "bob")
    shared.segment.q[handler._watched] = 0  # the first store of the change
    assert shared.histograms.wait_of_watched()[bob & 0xFFFF_FFFF].count == 0
    shared.histograms.of_handler(0).ran(0, 0, bob, MS, MS)  # its successor
    assert shared.histograms.wait_of_watched()[bob & 0xFFFF_FFFF].count == 1


def test_a_successor_goes_on_in_the_row_of_its_index(shared: Shared) -> None:
    for _ in range(2):
        shared.histograms.of_handler(0).ran(1, 1, 1, MS, MS)
    assert shared.histograms.service().methods[1].count == 2
