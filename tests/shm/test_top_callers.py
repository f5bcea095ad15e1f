"""The table in which readers publish who calls what most of late."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.shm.layout import ADDRESS_BYTES, CONTEXT_BYTES, TOP_CALLERS, WORD
from faircall.shm.top_callers import FIGURES, TopCallers, names_of

from ..fault.world import World

OTHERS = [float(number) for number in range(FIGURES)]


def publish(top: TopCallers, reader: int, user: str, calls: float, count: int = 1) -> None:
    figures = [calls, 2 * calls, 3 * calls, 0.0, 0.0, 0.0, 0.0, 1.5]
    names = names_of(7 << 32 | 3, 5, user.encode(), "job-1", "192.0.2.7")
    top.publish(reader, 1000, 2.5, OTHERS, [(figures, names)] * count)


def test_what_a_reader_publishes_is_read_by_others(world: World) -> None:
    top = TopCallers(world.shared.segment)
    assert top.read(1) is None
    publish(top, 1, "älice", 12.0)
    found = top.read(1)
    assert found is not None
    assert (found.at_ns, found.seconds, list(found.others)) == (1000, 2.5, OTHERS)
    assert found.figures.tolist() == [[12.0, 24.0, 36.0, 0.0, 0.0, 0.0, 0.0, 1.5]]
    assert [found.text(0, name) for name in ("user", "context", "address")] == [
        "älice",
        "job-1",
        "192.0.2.7",
    ]
    assert (int(found.rows["identity"][0]), int(found.rows["method"][0])) == (7 << 32 | 3, 5)
    assert top.read(0) is None


def test_each_publication_replaces_the_one_before(world: World) -> None:
    top = TopCallers(world.shared.segment)
    publish(top, 0, "alice", 1.0, TOP_CALLERS)
    publish(top, 0, "bob", 2.0)
    found = top.read(0)
    assert found is not None
    assert [found.text(0, "user"), len(found.rows)] == ["bob", 1]


def test_texts_are_cut_to_whole_characters(world: World) -> None:
    top = TopCallers(world.shared.segment)
    names = names_of(0, 0, b"u" * 500, "ä" * 500, "€" * 500)
    top.publish(0, 1, 1.0, OTHERS, [(OTHERS, names)])
    found = top.read(0)
    assert found is not None
    assert found.text(0, "context") == "ä" * (CONTEXT_BYTES // 2)
    assert found.text(0, "address") == "€" * (ADDRESS_BYTES // 3)
    assert len(found.text(0, "user")) == 128


def test_a_reader_that_dies_over_a_block_leaves_the_one_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is written but the version: nobody sees any of it."""
    top = TopCallers(world.shared.segment)
    publish(top, 0, "alice", 1.0)
    word = top._version(0)

    class NeverTheVersion:
        def __getitem__(self, at: int) -> int:
            return world.shared.segment.q[at]

        def __setitem__(self, at: int, value: int) -> None:
            assert at == word

    with monkeypatch.context() as patch:
        patch.setattr(top, "_q", NeverTheVersion())
        publish(top, 0, "mallory", 9.0, TOP_CALLERS)
    found = top.read(0)
    assert found is not None
    assert (found.text(0, "user"), len(found.rows)) == ("alice", 1)


def test_a_block_that_is_written_over_while_it_is_read_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, later = TopCallers(world.shared.segment), ["bob", "carol"]
    publish(top, 0, "alice", 1.0)
    copy = top._copy

    def copy_late(at: int) -> Any:
        found = copy(at)
        while later:
            publish(top, 0, later.pop(0), 2.0)
        return found

    monkeypatch.setattr(top, "_copy", copy_late)
    found = top.read(0)
    assert found is not None
    assert found.text(0, "user") == "carol"


def test_who_publishes_all_the_time_is_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = TopCallers(world.shared.segment)
    publish(top, 0, "alice", 1.0)
    copy = top._copy

    def copy_late(at: int) -> Any:
        found = copy(at)
        publish(top, 0, "bob", 1.0)
        return found

    monkeypatch.setattr(top, "_copy", copy_late)
    assert top.read(0) is None


def test_the_words_of_two_readers_do_not_touch(world: World) -> None:
    top = TopCallers(world.shared.segment)
    publish(top, 0, "alice", 1.0, TOP_CALLERS)
    publish(top, 0, "alice", 1.0, TOP_CALLERS)
    assert top.read(1) is None
    assert top._block(0, 1) + (top._block(0, 1) - top._block(0, 0)) <= top._version(1) * WORD
