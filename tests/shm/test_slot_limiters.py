"""What a slot says of its call's limiters: packed rows, and the marks beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from faircall.shm.layout import LIMITERS_PER_CALL
from faircall.shm.slot_limiters import (
    CLOSER,
    LIMITER_SLOT_WORDS,
    MORE,
    ROW_BITS,
    W_BATCH,
    W_BUDGET,
    W_HELD_BY,
    W_LIMITERS,
    clear,
    follow,
    limiter_words,
    look_closer,
    name,
    numbers_of,
    table_of,
)

from ..fault.world import SMALL, World


def test_rows_are_packed_by_three_into_words_without_a_gap() -> None:
    assert limiter_words([]) == [0, 0, 0]
    assert limiter_words([0, 1, 2]) == [1 | 2 << 20 | 3 << 40, 0, 0]
    assert limiter_words([0, 1, 2, 9]) == [MORE | 1 | 2 << 20 | 3 << 40, 10, 0]
    assert limiter_words(list(range(8)))[2] == 7 | 8 << 20
    with pytest.raises(ValueError, match="9 limiters on one call, at most 8"):
        limiter_words(list(range(9)))


def test_every_row_that_a_segment_may_have_can_be_named(world: World) -> None:
    most = 1 << 16
    with pytest.raises(ValueError, match="limiters must be at most"):
        replace(SMALL, limiters=most + 1)
    assert most < 1 << ROW_BITS
    rows = [most - 1] * LIMITERS_PER_CALL
    name(world.q, world.table.slot0, limiter_words(rows))
    assert numbers_of(world.q, world.table.slot0) == [most] * LIMITERS_PER_CALL


@pytest.mark.parametrize("count", range(LIMITERS_PER_CALL + 1))
@pytest.mark.parametrize("marked", [False, True])
def test_what_is_named_is_read_by_one_and_by_all(world: World, count: int, marked: bool) -> None:
    rows, own = list(range(5, 5 + count)), world.table.slot0
    name(world.q, own, limiter_words(rows))
    if marked:
        look_closer(world.q, own)
    assert numbers_of(world.q, own) == [row + 1 for row in rows]
    named = table_of(world.table.words[:1])
    assert named[0, :count].tolist() == [row + 1 for row in rows]
    assert not named[0, count:].any()
    assert world.table.budgets.named_by(np.array([0])).tolist() == rows


def test_a_call_that_is_named_again_keeps_its_mark(world: World) -> None:
    q, own = world.q, world.table.slot0
    name(q, own, limiter_words(list(range(8))))
    look_closer(q, own)
    name(q, own, limiter_words([3]))
    assert q[own + W_LIMITERS] == CLOSER | 4
    assert not any(q[own + W_LIMITERS + 1 : own + W_LIMITERS + LIMITER_SLOT_WORDS])


def test_both_ends_of_a_link_in_a_batch_are_marked(world: World) -> None:
    reader = world.reader(0)
    head, other = (reader.stage(world.call(limiters=(0,))) for _ in range(2))
    follow(world.q, reader.own(head), reader.own(other), other)
    for slot in (head, other):
        assert world.q[reader.own(slot) + W_LIMITERS] == CLOSER | 1
    assert world.q[reader.own(head) + W_BATCH] == reader.generation(other) << 32 | other + 1
    assert world.q[reader.own(other) + W_BATCH] == 0


def test_what_is_cleared_names_nothing_and_needs_no_look(world: World) -> None:
    q, own = world.q, world.table.slot0
    name(q, own, limiter_words(list(range(8))))
    look_closer(q, own)
    q[own + W_HELD_BY] = q[own + W_BATCH] = q[own + W_BUDGET] = 7
    clear(q, own)
    assert not any(q[own + W_LIMITERS : own + W_LIMITERS + LIMITER_SLOT_WORDS])
    assert (q[own + W_HELD_BY], q[own + W_BATCH], q[own + W_BUDGET]) == (0, 0, 0)
