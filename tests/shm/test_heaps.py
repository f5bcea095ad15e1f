"""Pairing heaps over slots, against sorted lists."""

from __future__ import annotations

import random

import pytest

from faircall.shm.heaps import SlotHeaps
from faircall.shm.layout import Geometry
from faircall.shm.rings import W_SEQ, W_TURN

from .conftest import MakeWorld

SLOTS = 64
GEOMETRY = Geometry(
    readers=1, handlers=1, slots=SLOTS, levels=4, turns=64, identities=8, methods=4, limiters=2,
    small_pages=8, large_pages=1,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_behaves_as_a_sorted_list(make_world: MakeWorld, seed: int) -> None:
    """In whatever order slots come and go, the earliest (turn, seq) is the root."""
    world, draw = make_world(geometry=GEOMETRY), random.Random(seed)
    heaps = SlotHeaps(world.shared.segment, world.table.words)
    root = world.table.limiters.first
    inside: dict[int, tuple[int, int]] = {}
    for seq in range(300):
        free = [slot for slot in range(SLOTS) if slot not in inside]
        if free and draw.random() < 0.6:
            slot, turn = draw.choice(free), draw.randrange(8)
            own = heaps.own(slot + 1)
            world.q[own + W_TURN], world.q[own + W_SEQ] = turn, seq
            heaps.link(root, slot)
            inside[slot] = turn, seq
        elif inside:
            earliest = world.q[root] - 1
            slot = draw.choice([earliest, draw.choice(list(inside))])
            heaps.cut(root, slot)
            del inside[slot]
        assert sorted(heaps.members(root)) == sorted(inside)
        if inside:
            assert world.q[root] - 1 == min(inside, key=inside.__getitem__)
    assert world.q[root] or not inside
