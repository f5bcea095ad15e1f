"""A settlement is all or nothing, whichever of its stores is the last."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from faircall.shm.layout import SLOT, word_of
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.settlement import Settlement, redo

from ..workers.handler_desk import Desk, Methods

HANDLER = 2  # its process index: two readers come first
CHARGED = word_of(SLOT, "charged")


class Killed(Exception):
    """The process ends here."""


class Mortal:
    """The words of a segment, for a process that is killed before a certain store."""

    def __init__(self, q: Any, stores: int) -> None:
        self._q, self._left = q, stores

    def __getitem__(self, at: int) -> int:
        return int(self._q[at])

    def __setitem__(self, at: int, value: int) -> None:
        if not self._left:
            raise Killed
        self._left -= 1
        self._q[at] = value


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk(Methods().service)
    yield made
    made.close()


def staged(desk: Desk, charged: int) -> int:
    """Where the words of a call begin whose reader has charged that much."""
    slot = desk.put("echo")
    desk.set(slot, "charged", charged)
    desk.shared.columns.charge(0, desk.user, charged)
    return desk.table.slot0 + slot * SLOT_WORDS


def cost(desk: Desk) -> int:
    return int(desk.shared.columns.cost_totals()[desk.user])


def settlement(desk: Desk) -> Settlement:
    return Settlement(desk.shared.segment, desk.shared.columns, HANDLER)


@pytest.mark.parametrize(("reserved", "final"), [(100, 30), (30, 100), (0, 7), (7, 0)])
def test_the_final_cost_takes_the_place_of_what_was_reserved(
    desk: Desk, reserved: int, final: int
) -> None:
    own = staged(desk, reserved)
    settlement(desk).settle(own, final)
    assert (cost(desk), desk.q[own + CHARGED]) == (final, final)
    settlement(desk).settle(own, final + 5)  # it was run again
    assert cost(desk) == final + 5
    assert not redo(desk.shared.segment, HANDLER)


def test_killed_at_any_store_it_is_done_or_not_begun(desk: Desk) -> None:
    seen = []
    for stores in range(8):
        own = staged(desk, 100)
        before = cost(desk) - 100
        dying = settlement(desk)
        dying._q = Mortal(desk.q, stores)  # type: ignore[assignment]
        with contextlib.suppress(Killed):
            dying.settle(own, 30)
        redo(desk.shared.segment, HANDLER)
        assert not redo(desk.shared.segment, HANDLER)  # and again: it changes nothing
        found = (cost(desk) - before, desk.q[own + CHARGED])
        assert found in ((100, 100), (30, 30)), stores
        seen.append(found[0])
        settlement(desk).settle(own, 40)  # a successor pays the difference
        assert cost(desk) - before == 40
    assert seen == [100] * 4 + [30] * 4


def test_the_successor_of_a_redo_that_was_killed_finishes_it(desk: Desk) -> None:
    own = staged(desk, 100)
    dying = settlement(desk)
    dying._q = Mortal(desk.q, 5)  # type: ignore[assignment]
    with pytest.raises(Killed):
        dying.settle(own, 30)
    segment = desk.shared.segment
    whole, segment.q = segment.q, Mortal(segment.q, 1)  # type: ignore[assignment]
    with pytest.raises(Killed):
        redo(segment, HANDLER)
    segment.q = whole
    assert redo(segment, HANDLER)
    assert (cost(desk), desk.q[own + CHARGED]) == (30, 30)
