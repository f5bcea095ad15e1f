"""What makes a payload page free, and the free stacks that are only an index of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from faircall.shm import states
from faircall.shm.layout import SMALL_PAGE
from faircall.shm.pages import ANSWER, REQUEST, PagePool

from ..fault.kill import start, wait_for
from ..fault.world import SMALL, World
from .conftest import MakeWorld


@pytest.fixture
def pool(world: World) -> PagePool:
    return world.pages


def set_state(world: World, slot: int, state: int, generation: int) -> None:
    world.q[world.reader(0).own(slot)] = states.state_word(state, generation=generation)


def nothing() -> None:
    """No step."""


def test_pages_given_back_are_taken_again(pool: PagePool) -> None:
    for _ in range(50):
        place = pool.take(3, REQUEST, 9000)
        assert place
        pool.give_back([(place, 3, 1)])
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)


def test_a_release_frees_the_pages_of_a_slot_in_truth(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 9000)
    assert pool.leaked() == 0
    world.table.release(0)
    assert pool.leaked() == 3
    pool.give_back([(place, 0, 1)])
    assert pool.leaked() == 0


def test_what_a_rebuild_found_free_is_not_freed_again(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 9000)
    world.table.release(0)
    with pool.lock:
        pool.rebuild()
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)
    pool.give_back([(place, 0, 1)])
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)
    assert pool.audit() == []


def test_what_somebody_else_has_meanwhile_is_not_freed(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 9000)
    world.table.release(0)
    with pool.lock:
        pool.rebuild()
    others = [pool.take(1 + n % 8, REQUEST, 1) for n in range(SMALL.small_pages)]
    assert place in others
    pool.give_back([(place, 0, 1)])
    assert pool.free_pages()[0] == 0
    assert pool.audit() == []


def test_the_same_slots_next_call_is_somebody_else(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 10)
    world.table.release(0)
    with pool.lock:
        pool.rebuild()
    while pool.take(0, REQUEST, 10) != place:
        pass
    pool.give_back([(place, 0, 1)])
    assert pool.audit() == []
    assert pool.leaked() == 0


def test_a_warm_page_is_never_free_in_between(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 10)
    for generation in range(1, 5):
        pool.restamp(place, 0, generation + 1)
        for step in (nothing, partial(world.table.release, 0)):
            step()
            with pool.lock:
                pool.rebuild()
            assert pool.free_pages()[0] == SMALL.small_pages - 1
    assert pool.leaked() == 0


def test_a_warm_page_survives_the_last_generation(world: World, pool: PagePool) -> None:
    set_state(world, 0, states.TAKEN, 0xFFFF_FFFF)
    place = pool.take(0, REQUEST, 10)
    pool.restamp(place, 0, 0xFFFF_FFFF + 1)
    for step in (nothing, partial(world.table.release, 0)):
        step()
        with pool.lock:
            pool.rebuild()
        assert pool.free_pages()[0] == SMALL.small_pages - 1


def test_a_dead_readers_warm_page_is_free(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 10)
    pool.restamp(place, 0, 2)
    world.table.recovery.reap_reader(0)
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)


def test_pages_of_an_answer_that_nobody_stored_are_found(world: World, pool: PagePool) -> None:
    request = pool.take(0, REQUEST, 10)
    pool.take(0, ANSWER, 9000)
    other = pool.take(1, ANSWER, 9000)
    assert pool.give_back_unlinked(0) == 3
    assert pool.free_pages()[0] == SMALL.small_pages - 4
    pool.give_back([(request, 0, 1), (other, 1, 1)])
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)


def test_two_processes_never_have_the_same_page(make_world: MakeWorld) -> None:
    world = make_world()
    pool = world.pages

    def churn(slot: int) -> None:
        for _ in range(300):
            place = pool.take(slot, REQUEST, 3 * SMALL_PAGE)
            assert place
            pool.write(place, bytes([slot]) * (3 * SMALL_PAGE))
            assert pool.read(place, 3 * SMALL_PAGE) == bytes([slot]) * (3 * SMALL_PAGE)
            pool.give_back([(place, slot, 1)])

    pids = [start(partial(churn, slot)) for slot in (1, 2)]
    assert [wait_for(pid) for pid in pids] == [0, 0]
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)
    assert pool.audit() == []


def test_an_audit_finds_a_page_that_is_free_twice(world: World, pool: PagePool) -> None:
    stack = world.shared.segment.layout.small_stack // 8 + 8
    world.q[stack] = world.q[stack + 1]
    assert "not distinct" in pool.audit()[0]


def test_an_audit_finds_a_page_that_is_free_and_in_use(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 10)
    stack = world.shared.segment.layout.small_stack // 8
    world.q[stack + 8 + world.q[stack]] = place - 1
    world.q[stack] += 1
    assert "both free and in use" in pool.audit()[0]


def test_an_audit_finds_a_stack_longer_than_there_are_pages(world: World, pool: PagePool) -> None:
    world.q[world.shared.segment.layout.large_stack // 8] = 99
    assert "99 entries" in pool.audit()[0]


def test_an_audit_finds_a_page_of_another_class(world: World, pool: PagePool) -> None:
    world.q[world.shared.segment.layout.small_stack // 8 + 8] = 1 << 40
    assert pool.audit() != []


def test_a_scribbled_owner_is_no_owner(world: World, pool: PagePool) -> None:
    place = pool.take(0, REQUEST, 10)
    world.q[world.shared.segment.layout.small_words // 8 + 2 * (place - 1)] = (1 << 64) - 1
    with pool.lock:
        pool.rebuild()
    assert pool.free_pages() == (SMALL.small_pages, SMALL.large_pages)
    assert pool.audit() == []


class BusyReader:
    """Stands in for the slots' states: whoever has read them, a reader goes on at once."""

    def __init__(self, world: World, pool: PagePool, slot: int, place: int, calls: int) -> None:
        self._states, self._world, self._pool = pool._states, world, pool
        self._slot, self._place, self._calls = slot, place, calls

    def __len__(self) -> int:
        return len(self._states)

    def __getitem__(self, index: Any) -> Any:
        read = self._states[index].copy()
        for _ in range(self._calls):
            generation = self._world.q[self._world.reader(0).own(self._slot)] >> 32
            self._pool.restamp(self._place, self._slot, generation + 1)
            self._world.table.release(self._slot)
        return read


@pytest.mark.parametrize("calls", [1, 2, 50])
def test_a_rebuild_leaves_a_warm_page_whose_reader_goes_on_meanwhile(
    world: World, pool: PagePool, calls: int
) -> None:
    """A reader takes no lock to keep a page, and a rebuild may sleep between two of its looks."""
    place = pool.take(2, REQUEST, 100)
    pool._states = BusyReader(world, pool, 2, place, calls)  # type: ignore[assignment]
    with pool.lock:
        pool.rebuild()
    assert pool.free_pages() == (SMALL.small_pages - 1, SMALL.large_pages)
    others = [pool.take(1, REQUEST, 100) for _ in range(SMALL.small_pages)]
    assert place not in others
