"""Names in shared memory: identities and methods, found without a lock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from faircall.shm.layout import MAX_LEVELS, NAME_BYTES
from faircall.shm.names import OTHERS, OTHERS_NAME, Names, NamesFull

from ..fault.kill import start, wait_for
from ..fault.world import SMALL, World
from .conftest import MakeWorld

ROOMY = replace(SMALL, identities=300, methods=40)
FREE_ROWS = 2  # the world has named the others


def test_a_name_has_one_row(world: World) -> None:
    row = world.names.identity("ann", 5)
    assert world.names.identity("ann", 6) == row
    assert world.names.identities.find("ann") == row
    assert world.names.identities.name(row) == "ann"
    assert world.q[world.names.word(row, "used_ns")] == 6


def test_a_new_row_begins_at_the_level_that_it_is_given(world: World) -> None:
    row = world.names.identity("ann", 5, 3)
    assert world.names.level(row) == 3
    assert world.names.identity("ann", 6, 1) == row
    assert world.names.level(row) == 3  # it is not new any more


def test_an_unknown_name_has_none(world: World) -> None:
    assert world.names.identities.find("nobody") == -1
    assert world.names.identities.name(SMALL.identities - 1) == ""


@pytest.mark.parametrize(
    "name", ["", "ann", "a" * NAME_BYTES, "ä" * 64, "\x00", "\udc80", "a\nb", "user@EXAMPLE.COM"]
)
def test_any_text_is_a_name(world: World, name: str) -> None:
    row = world.names.identity(name, 0)
    assert row != OTHERS
    assert world.names.identities.find(name) == row


def test_names_longer_than_their_place_differ_in_their_ends(make_world: MakeWorld) -> None:
    world = make_world(geometry=ROOMY)
    long = "x" * (NAME_BYTES + 1)
    rows = {world.names.identity(name, 0) for name in (long, long + "y", long + "z", long[:-1])}
    assert len(rows) == 4
    assert world.names.identities.name(world.names.identities.find(long + "y")).startswith("xxx")
    assert world.names.identities.find(long + "q") == -1


def test_a_short_name_that_looks_like_a_long_ones_is_another(make_world: MakeWorld) -> None:
    world = make_world(geometry=ROOMY)
    row = world.names.identity("x" * 500, 0)
    stored = world.names.identities.name(row)
    assert len(stored) == NAME_BYTES
    assert world.names.identities.find(stored) == -1


def test_names_whose_hashes_collide_are_told_apart(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one bucket, and all of one hash: the stored names decide."""
    world = make_world(geometry=ROOMY)
    monkeypatch.setattr(
        type(world.names.identities), "key", lambda self, name: (0xFFFF_FFFF, name.encode())
    )
    names = [f"n{number}" for number in range(50)]
    rows = [world.names.identity(name, 0) for name in names]
    assert len(set(rows)) == 50
    world.names.evict(rows[:25])
    assert [world.names.identities.find(name) for name in names] == [-1] * 25 + rows[25:]
    assert world.names.identities.find("other") == -1


def test_the_hashes_differ_from_segment_to_segment(make_world: MakeWorld) -> None:
    """Nobody can choose names that collide."""
    first, second = make_world(), make_world()
    assert first.names.identities.key("ann")[0] != second.names.identities.key("ann")[0]


def test_a_full_table_puts_the_rest_into_one_row(make_world: MakeWorld) -> None:
    world = make_world(geometry=ROOMY)
    free = ROOMY.identities - len(world.names.identities.used_rows())
    rows = [world.names.identity(f"n{number}", 0) for number in range(free + 20)]
    assert rows[free:] == [OTHERS] * 20
    assert OTHERS not in rows[:free]
    assert world.names.identities.name(OTHERS) == OTHERS_NAME
    assert [world.names.identities.find(f"n{number}") for number in range(free)] == rows[:free]


def test_an_evicted_row_is_of_another_generation(world: World) -> None:
    row = world.names.identity("ann", 0)
    reference = world.names.reference(row)
    world.names.evict([row])
    assert world.names.identities.find("ann") == -1
    assert world.names.generation(row) == (reference >> 32) + 1
    assert world.names.identity("bob", 0) == row
    assert world.names.reference(row) != reference
    assert world.names.reference(row) & 0xFFFF_FFFF == row


def test_a_row_that_is_used_again_starts_anew(world: World) -> None:
    """Not with its predecessor's level, turns or costs."""
    row = world.names.identity("ann", 0)
    for field in ("level", "decayed", "raw", "quarantined"):
        world.q[world.names.word(row, field)] = 3
    world.q[world.table.last_turn0 + row * MAX_LEVELS + 2] = 50
    world.names.costs[0, row] = 70
    world.names.costs[1, row] = np.uint64((1 << 64) - 20)  # the sum wraps around
    world.names.calls[1, row] = 7
    world.names.evict([row])
    assert world.names.identity("bob", 0) == row
    fields = ("level", "decayed", "raw", "quarantined", "seen", "calls_seen")
    assert [world.q[world.names.word(row, field)] for field in fields] == [0, 0, 0, 0, 50, 7]
    assert world.q[world.table.last_turn0 + row * MAX_LEVELS + 2] == 0


def test_a_level_is_read_from_its_row(world: World) -> None:
    row = world.names.identity("ann", 0)
    world.q[world.names.word(row, "level")] = 3
    assert world.names.level(row) == 3


def test_two_processes_create_the_same_names_at_once(make_world: MakeWorld) -> None:
    world = make_world(geometry=ROOMY)
    names = [f"n{number}" for number in range(150)]

    def create() -> None:
        table = Names(world.shared.segment)
        for name in names:
            row = table.identity(name, 0)
            assert row != OTHERS
            assert table.identities.name(row) == name

    with world.names.lock:  # they begin at once
        pids = [start(create) for _ in range(3)]
    assert [wait_for(pid) for pid in pids] == [0, 0, 0]
    rows = [world.names.identities.find(name) for name in names]
    assert len(set(rows)) == 150
    assert -1 not in rows
    used = {world.names.identities.name(row) for row in world.names.identities.used_rows()}
    assert used >= set(names)


def test_who_looks_during_a_rebuild_finds_its_name(make_world: MakeWorld) -> None:
    """The index is replaced, never emptied: readers look names up without the lock."""
    world = make_world(geometry=ROOMY)
    names = [f"n{number}" for number in range(60)]
    rows = [world.names.identity(name, 0) for name in names]

    def rebuild() -> None:
        for _ in range(300):
            with world.names.lock:
                world.names.rebuild()

    pid = start(rebuild)
    found = [world.names.identities.find(name) for _ in range(100) for name in names]
    assert wait_for(pid) == 0
    assert found == rows * 100


def test_a_rebuilt_index_finds_every_name(make_world: MakeWorld) -> None:
    world = make_world(geometry=ROOMY)
    rows = {name: world.names.identity(name, 0) for name in (f"n{n}" for n in range(200))}
    methods = {name: world.names.method(name, 0, 0) for name in ("echo", "add")}
    layout = world.shared.segment.layout
    for index in (layout.identity_index, layout.method_index):
        world.shared.segment.words(index, ROOMY.buckets)[:] = 7
    with world.names.lock:
        world.names.rebuild()
    assert {name: world.names.identities.find(name) for name in rows} == rows
    assert {name: world.names.methods.find(name) for name in methods} == methods


def test_a_method_keeps_its_row_and_gets_its_new_flags(world: World) -> None:
    row = world.names.method("echo", 1, 5)
    assert world.names.method("echo", 2, 9) == row
    assert world.names.methods.rows[row]["flags"] == 2
    assert world.names.methods.rows[row]["timeout_ns"] == 9
    assert world.names.methods.name(row) == "echo"


def test_one_method_too_many_is_an_error_not_the_end_of_the_process(world: World) -> None:
    for number in range(SMALL.methods):
        world.names.method(f"m{number}", 0, 0)
    with pytest.raises(NamesFull, match=f"all {SMALL.methods} rows are taken: name='one more'"):
        world.names.method("one more", 0, 0)
    assert world.names.lock.owner() == 0
    assert world.names.method("m0", 3, 3) == world.names.methods.find("m0")


def test_a_method_is_no_identity(world: World) -> None:
    world.names.method("echo", 0, 0)
    assert world.names.identities.find("echo") == -1


def test_free_rows_are_used_up(world: World) -> None:
    rows = [world.names.identity(f"n{number}", 0) for number in range(FREE_ROWS + 1)]
    assert rows[FREE_ROWS] == OTHERS
    assert world.names.identities.used_rows() == list(range(SMALL.identities))


def test_a_free_row_is_found_wherever_it_is(world: World) -> None:
    """Also before the last one that was found, of which another process made a row free."""
    rows = [world.names.identity(f"n{number}", 0) for number in range(FREE_ROWS)]
    assert Names(world.shared.segment).evict(rows[:1]) == rows[:1]
    found = [world.names.identity(name, 0) for name in ("again", "one too many")]
    assert found == [rows[0], OTHERS]


def test_a_method_is_found_when_all_handlers_have_it(world: World) -> None:
    names, published = world.names, world.shared.generation
    old, both = names.method("old", 0, 0), names.method("both", 0, 0)
    assert [names.has_method(row) for row in (old, both)] == [True, True]
    fresh = names.method("fresh", 0, 0, generation=1)  # the first new handler
    names.method("both", 0, 0, generation=1)
    assert [names.has_method(row) for row in (old, both, fresh)] == [True, True, False]
    names.method("old", 0, 0)  # an old handler that was replaced meanwhile
    published.set(1)
    assert [names.has_method(row) for row in (old, both, fresh)] == [False, True, True]


def test_a_method_that_comes_again_is_new_again(world: World) -> None:
    names, published = world.names, world.shared.generation
    row = names.method("echo", 0, 0)
    published.set(1)  # the handlers of generation 1 do not have it
    assert names.method("echo", 0, 0, generation=2) == row
    assert not names.has_method(row)
    published.set(2)
    assert names.has_method(row)


def test_what_a_failed_generation_has_left_is_not_found(world: World) -> None:
    names, published = world.names, world.shared.generation
    tried = names.method("tried", 0, 0, generation=1)  # and then its handler died
    kept = names.method("kept", 0, 0, generation=1)
    names.method("kept", 0, 0, generation=2)
    published.set(2)
    assert [names.has_method(row) for row in (tried, kept)] == [False, True]
