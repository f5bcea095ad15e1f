from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.turns import TurnQueue, turn_of


class Call(NamedTuple):
    identity: str
    number: int
    level: int = 0


def served(queue: TurnQueue[Call]) -> list[Call]:
    """All waiting calls, in the order in which they are served."""
    return [queue.popleft() for _ in range(len(queue))]


def test_identities_are_served_in_turn() -> None:
    queue: TurnQueue[Call] = TurnQueue()
    for call in [Call("heavy", n) for n in range(4)] + [Call("light", 0), Call("light", 1)]:
        queue.append(call)
    order = "".join(call.identity[0] for call in served(queue))
    assert order == "hlhlhh"


def test_a_newcomer_waits_for_no_more_than_one_call_of_each_other() -> None:
    queue: TurnQueue[Call] = TurnQueue()
    for number in range(100):
        for name in ("a", "b", "c"):
            queue.append(Call(name, number))
    for _ in range(31):
        queue.popleft()
    queue.append(Call("new", 0))
    ahead = [call.identity for call in served(queue)].index("new")
    assert ahead <= 3


@given(st.lists(st.one_of(st.sampled_from("abcde"), st.none()), max_size=200), st.integers(1, 20))
def test_an_identity_s_calls_stay_in_order_and_none_is_lost(
    steps: list[str | None], window: int
) -> None:
    queue: TurnQueue[Call] = TurnQueue(window)
    put: list[Call] = []
    got: list[Call] = []
    for step in steps:
        if step is not None:
            put.append(Call(step, len(put)))
            queue.append(put[-1])
        elif len(queue):
            first = queue.first()
            got.append(queue.popleft())
            assert got[-1] == first
        assert len(queue) == len(put) - len(got)
    got += served(queue)
    for name in "abcde":
        assert [c for c in got if c.identity == name] == [c for c in put if c.identity == name]


def test_turns_reach_no_further_than_the_window() -> None:
    assert turn_of(10, None, 4) == 10
    assert turn_of(10, 3, 4) == 10
    assert turn_of(10, 11, 4) == 12
    assert turn_of(10, 13, 4) == 13


def test_an_empty_queue_has_no_first_call() -> None:
    with pytest.raises(IndexError):
        TurnQueue[Call]().popleft()
