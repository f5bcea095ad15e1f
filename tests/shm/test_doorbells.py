from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import replace

import pytest

from faircall.shm.doorbells import Doorbells, clear, ring

from ..fault.kill import start, wait_for
from ..fault.world import SMALL


@pytest.fixture
def bells() -> Iterator[Doorbells]:
    made = Doorbells(replace(SMALL, handlers=70, readers=3))
    yield made
    made.close()


def ringing(bells: Doorbells) -> tuple[list[int], list[int]]:
    """Numbers of the handlers and readers whose bells ring."""
    ready = select.select(bells.descriptors(), [], [], 0)[0]
    return (
        [number for number, fd in enumerate(bells.handlers) if fd in ready],
        [number for number, fd in enumerate(bells.readers) if fd in ready],
    )


def test_nobody_is_woken_at_first(bells: Doorbells) -> None:
    assert ringing(bells) == ([], [])


def test_handlers_are_woken_by_a_bitmap(bells: Doorbells) -> None:
    bells.ring_handlers(1 << 69 | 1 << 64 | 1 << 63 | 1)
    assert ringing(bells) == ([0, 63, 64, 69], [])


def test_an_empty_bitmap_wakes_nobody(bells: Doorbells) -> None:
    bells.ring_handlers(0)
    assert ringing(bells) == ([], [])


def test_one_reader_is_woken(bells: Doorbells) -> None:
    bells.ring_reader(2)
    assert ringing(bells) == ([], [2])


def test_all_are_woken_after_a_death(bells: Doorbells) -> None:
    bells.ring_all()
    assert ringing(bells) == (list(range(70)), [0, 1, 2])


def test_a_bell_rings_until_it_is_cleared(bells: Doorbells) -> None:
    bell = bells.readers[0]
    ring(bell)
    ring(bell)
    assert ringing(bells) == ([], [0])
    clear(bell)
    assert ringing(bells) == ([], [])
    clear(bell)


def test_ringing_never_blocks(bells: Doorbells) -> None:
    bell = bells.readers[0]
    os.eventfd_write(bell, (1 << 64) - 2)
    ring(bell)
    assert ringing(bells) == ([], [0])


def test_another_process_can_ring(bells: Doorbells) -> None:
    assert wait_for(start(lambda: bells.ring_handlers(0b10))) == 0
    assert ringing(bells) == ([1], [])


def test_no_bell_survives_an_exec(bells: Doorbells) -> None:
    assert not any(os.get_inheritable(fd) for fd in bells.descriptors())


def test_closing_gives_the_descriptors_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    made = Doorbells(SMALL)
    assert len(os.listdir("/proc/self/fd")) == before + len(made.descriptors())
    made.close()
    assert len(os.listdir("/proc/self/fd")) == before
