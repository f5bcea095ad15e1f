"""Payload pages: chains, and bodies in them. (What is free: test_pages_index.)"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from faircall.shm.layout import LARGE_PAGE, SMALL_PAGE, Geometry
from faircall.shm.pages import ANSWER, REQUEST, SMALL_RUN, PagePool
from faircall.shm.segment import Segment
from faircall.shm.table import CallTable

from ..fault.world import POLICY, SMALL, World

MIB = 1 << 20


@pytest.fixture
def pool(world: World) -> PagePool:
    return world.pages


@pytest.fixture(scope="module")
def large() -> Iterator[PagePool]:
    """Room for a body of 16 MiB and one of 1 MiB beside it."""
    segment = Segment.create(replace(SMALL, small_pages=8, large_pages=16 * 17))
    table = CallTable(segment)
    table.initialise(POLICY)
    with table.pages.lock:
        table.pages.rebuild()
    yield table.pages
    os.close(segment.fd)


def body_of(length: int) -> bytes:
    """Bytes of which no two pages are alike."""
    return b"".join(number.to_bytes(8, "little") for number in range(-(-length // 8)))[:length]


LENGTHS = [0, 1, SMALL_PAGE - 1, SMALL_PAGE, SMALL_PAGE + 1, SMALL_RUN * SMALL_PAGE]
LENGTHS += [SMALL_RUN * SMALL_PAGE + 1, LARGE_PAGE, LARGE_PAGE + 1, 3 * LARGE_PAGE - 5]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_body_comes_back_as_it_was(pool: PagePool, length: int) -> None:
    other = pool.take(1, REQUEST, 100)
    pool.write(other, b"x" * 100)
    place = pool.take(0, REQUEST, length)
    assert place
    pool.write(place, body_of(length))
    assert pool.read(place, length) == body_of(length)
    assert pool.read(other, 100) == b"x" * 100


@pytest.mark.parametrize(
    ("length", "small", "large"),
    [
        (0, 1, 0),
        (SMALL_PAGE, 1, 0),
        (SMALL_PAGE + 1, 2, 0),
        (16384, 4, 0),
        (16385, 0, 1),
        (LARGE_PAGE, 0, 1),
        (LARGE_PAGE + 1, 0, 2),
    ],
)
def test_a_body_takes_as_many_pages_as_it_needs(
    pool: PagePool, length: int, small: int, large: int
) -> None:
    before = pool.free_pages()
    pool.take(0, REQUEST, length)
    after = pool.free_pages()
    assert (before[0] - after[0], before[1] - after[1]) == (small, large)


def test_16_mib_fit(large: PagePool) -> None:
    body = os.urandom(16 * MIB)
    place, other = large.take(0, REQUEST, len(body)), large.take(1, ANSWER, MIB)
    large.write(place, body)
    large.write(other, body[:MIB])
    assert large.read(place, len(body)) == body
    assert large.read(other, MIB) == body[:MIB]
    assert large.take(2, REQUEST, MIB) == 0
    generation = 1
    large.give_back([(place, 0, generation), (other, 1, generation)])
    assert large.free_pages() == (8, 16 * 17)
    assert large.audit() == []


def test_an_answer_may_lie_beside_its_request(pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 100)
    beside = 128 << 32 | place
    pool.write(place, b"q" * 100)
    pool.write(beside, b"a" * 1000)
    assert pool.read(place, 100) == b"q" * 100
    assert pool.read(beside, 1000) == b"a" * 1000


def test_an_answer_beside_its_request_may_go_on_in_the_next_page(pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 2 * SMALL_PAGE)
    beside = 100 << 32 | place
    pool.write(place, b"q" * 100)
    pool.write(beside, body_of(5000))
    assert pool.read(beside, 5000) == body_of(5000)
    assert pool.read(place, 100) == b"q" * 100


def test_exhausted_pages_are_no_page_at_all(pool: PagePool) -> None:
    assert pool.take(0, REQUEST, (SMALL.large_pages + 1) * LARGE_PAGE) == 0
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)
    taken = [pool.take(0, REQUEST, 1) for _ in range(SMALL.small_pages + 1)]
    assert taken[-1] == 0
    assert len(set(taken[:-1])) == SMALL.small_pages


def test_several_are_taken_under_one_lock(pool: PagePool) -> None:
    wants = [(0, REQUEST, 10), (1, REQUEST, 99 * LARGE_PAGE), (2, ANSWER, 5000)]
    first, none, last = pool.take_many(wants)
    assert first
    assert last
    assert none == 0
    assert pool.free_pages() == (SMALL.small_pages - 3, SMALL.large_pages)


def test_the_default_pool_takes_a_message_of_16_mib() -> None:
    assert Geometry().large_pages * LARGE_PAGE >= 2 * 16 * MIB
