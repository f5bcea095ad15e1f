"""The audit finds what is wrong, and survives whatever it reads."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from faircall.shm.heaps import W_CHILD
from faircall.shm.layout import LIMITER, SLOT, WORD, word_of
from faircall.shm.rings import SLOT_WORDS, W_PREV, W_SEQ, W_TURN
from faircall.shm.slot_limiters import CLOSER, W_HELD_BY, W_LIMITERS
from faircall.shm.states import DONE, HELD, QUEUED, STATE_MASK

from ..fault.kill import start, wait_for
from ..fault.world import World

Break = Callable[[World], None]


@pytest.fixture
def busy(world: World) -> World:
    """Calls wait, are held, run and are answered."""
    world.close_limiter(0, 1000)
    world.reader(0).offer([world.call(limiters=(0,)), world.call(limiters=(0,), who=2)])
    assert world.handler(1).claim() == []
    world.reader(0).offer([world.call(who=who) for who in (1, 1, 2, 3)])
    world.reader(1).offer([world.call(who=who, level=1) for who in (1, 1, 2)])
    world.handler(1).work()
    world.handler(1).claim()
    assert world.audit() == []
    return world


def own_of(world: World, state: int) -> int:
    """The word at which the first slot in `state` begins."""
    slot = int(world.table.recovery.slots_in(state)[0])
    return world.table.slot0 + slot * SLOT_WORDS


def set_state(world: World, old: int, new: int) -> None:
    own = own_of(world, old)
    world.q[own] = world.q[own] & ~STATE_MASK | new


def limiter(world: World, field: str) -> int:
    return world.shared.segment.layout.limiters // WORD + word_of(LIMITER, field)


def add(world: World, word: int) -> None:
    world.q[word] += 1


def swap_seq(world: World) -> None:
    """The last of a chain becomes the oldest call of all."""
    for slot in world.table.recovery.slots_in(QUEUED):
        own = world.table.slot0 + int(slot) * SLOT_WORDS
        if world.q[own + W_PREV]:
            world.q[own + W_SEQ] = 0
            return
    raise AssertionError("no chain of two")


BREAKS: dict[str, Break] = {
    "a queued call in no ring": lambda w: set_state(w, DONE, QUEUED),
    "a ring's call that is not queued": lambda w: set_state(w, QUEUED, HELD),
    "a held call that waits": lambda w: set_state(w, HELD, QUEUED),
    "an answer that is none": lambda w: set_state(w, DONE, HELD),
    "the count of waiting calls": lambda w: add(w, w.table.waiting_word),
    "the count of a level": lambda w: add(w, w.table.rings.waiting_word + 1),
    "the count of held calls": lambda w: add(w, w.table.held.held_word),
    "the count of a level's held calls": lambda w: add(w, w.table.held.level_held_word),
    "the count of a limiter's calls": lambda w: add(w, limiter(w, "held")),
    "the limiter that holds a call": lambda w: add(w, own_of(w, HELD) + W_HELD_BY),
    "the mark of a held call": lambda w: w.q.__setitem__(
        own_of(w, HELD) + W_LIMITERS, w.q[own_of(w, HELD) + W_LIMITERS] & ~CLOSER
    ),
    "the count of a principal": lambda w: add(w, w.names.word(3, "waiting")),
    "a call at another turn": lambda w: add(w, own_of(w, QUEUED) + W_TURN),
    "a call a ring's length ahead": lambda w: w.q.__setitem__(
        own_of(w, QUEUED) + W_TURN, w.q[own_of(w, QUEUED) + W_TURN] + w.table.rings.turns
    ),
    "a link back": lambda w: add(w, own_of(w, QUEUED) + W_PREV),
    "the first that a limiter holds": lambda w: add(w, w.table.held.root(0, 0)),
    "a held call behind a later one": lambda w: add(w, own_of(w, HELD) + W_CHILD),
    "the count of those let go": lambda w: add(w, limiter(w, "opened")),
    "the count of running calls": lambda w: add(w, limiter(w, "running")),
    "the opening of a limiter": lambda w: add(w, limiter(w, "opens_ns")),
    "the answers' tail": lambda w: add(w, w.table.answers0 + 1),
    "the answers' head beyond the tail": lambda w: w.q.__setitem__(w.table.answers0, 77),
    "a turn's bit": lambda w: w.q.__setitem__(w.shared.segment.layout.rings // WORD, 1 << 40),
    "a level that is further than its calls": lambda w: w.q.__setitem__(
        w.table.rings.turn_word, 1 << 30
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_every_invariant_is_checked(busy: World, name: str) -> None:
    BREAKS[name](busy)
    assert busy.audit() != []


def test_a_rebuild_repairs_what_the_audit_finds(busy: World) -> None:
    for name in ("the count of waiting calls", "a link back", "the first that a limiter holds"):
        BREAKS[name](busy)
    with busy.table.queue_lock:
        busy.table.recovery.rebuild_queue()
    assert busy.audit() == []


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_scribbled_the_audit_comes_to_an_end(busy: World, seed: int) -> None:
    """In a fork: a section that raises would end the process."""
    draw, layout = random.Random(seed), busy.shared.segment.layout
    first, last = layout.rings // WORD, layout.identities // WORD

    def scribble() -> None:
        found = 0
        before = bytes(busy.shared.segment.bytes)
        for _ in range(60):
            busy.shared.segment.bytes[:] = before
            for _ in range(20):
                busy.q[draw.randrange(first, last)] = draw.choice(
                    (0, 1, draw.getrandbits(8), draw.getrandbits(64), (1 << 64) - 1)
                )
            found += busy.audit() != []
        assert found >= 55, f"{found} of 60 found"

    assert wait_for(start(scribble)) == 0


def test_an_identity_row_out_of_range_is_found(busy: World) -> None:
    busy.q[own_of(busy, QUEUED) + word_of(SLOT, "principal")] = 0xFFFF_FFF0

    def audit() -> None:
        assert busy.audit() != []

    assert wait_for(start(audit)) == 0
