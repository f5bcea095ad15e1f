from __future__ import annotations

import enum

import pytest

from faircall.shm import states
from faircall.shm.recovery import is_complete


def test_a_state_word_keeps_its_parts_apart() -> None:
    parts = {"level": 0xF, "owner": 0x3FF, "attempts": 0xF, "generation": 0xFFFF_FFFF}
    for name, most in parts.items():
        word = states.state_word(states.RUNNING, **{**dict.fromkeys(parts, 0), name: most})
        assert f"{name}={most}" in states.describe(word)
        for other in parts.keys() - {name}:
            assert f"{other}=0" in states.describe(word)


def test_a_word_without_an_owner_says_nobody() -> None:
    assert states.state_word(states.FREE) >> states.OWNER_SHIFT & states.OWNER_MASK == 0xFFF


@pytest.mark.parametrize("state", range(len(states.STATES)))
def test_a_state_is_described_by_its_name(state: int) -> None:
    word = states.state_word(state, level=2, owner=1, generation=7)
    assert (
        states.describe(word) == f"{states.STATES[state]} level=2 owner=1 attempts=0 generation=7"
    )


def test_a_scribbled_word_is_described_too() -> None:
    assert states.describe(0xEE).startswith("state 238 ")


def test_a_call_word_keeps_its_parts_apart() -> None:
    word = states.call_word(0xFFFF_FFFF, cls=1, flags=0xFF, level=0xF)
    assert word & 0xFFFF_FFFF == 0xFFFF_FFFF
    assert word >> states.CLASS_SHIFT & 1 == 1
    assert word >> states.FLAGS_SHIFT & 0xFF == 0xFF
    assert word >> states.SCHEDULED_SHIFT == 0xF


def test_an_answer_word_is_complete_for_its_generation_alone() -> None:
    for generation in (0, 1, 0xFF_FFFF, 0x1234_5678):
        word = states.answer_word(states.Status.RESULT, 0xFFFF_FFFF, generation)
        assert is_complete(word, generation)
        assert not is_complete(word, generation + 1)
    assert not is_complete(0, 0)


@pytest.mark.parametrize("kind", [states.Status, states.Phase, states.Life])
def test_codes_fit_their_words(kind: type[enum.IntEnum]) -> None:
    assert all(0 <= member < 256 for member in kind)
    assert all(status > 0 for status in states.Status)  # 0 means: no answer yet
