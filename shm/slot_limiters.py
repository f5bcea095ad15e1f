"""Which limiters a call falls under: their rows, packed into its slot's `limiters` words.

    first word      CLOSER | MORE | third << 40 | second << 20 | first          row + 1; 0 = none
    the others                      sixth << 40 | fifth << 20 | fourth

A call names them without a gap, MORE if it names more than a word holds; the other words are 0
unless it does. Mostly the first word is all that a claim looks at.

CLOSER: the slot's `held_by`, `batch` or `budget` may be other than 0. It is stored before one of
them is, and goes when the slot's reader clears them; so without it all of them are 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .layout import LIMITERS_PER_CALL, SLOT, word_of
from .rings import Slots

W_LIMITERS, W_HELD_BY, W_BATCH, W_BUDGET = (
    word_of(SLOT, name) for name in ("limiters", "held_by", "batch", "budget")
)
ROW_BITS, ROWS_PER_WORD = 20, 3
LIMITER_SLOT_WORDS = -(-LIMITERS_PER_CALL // ROWS_PER_WORD)
CLOSER, MORE = 1 << 63, 1 << 62  # a word of less has no mark

_ROW = (1 << ROW_BITS) - 1
_SHIFTS = tuple(place * ROW_BITS for place in range(ROWS_PER_WORD))


def limiter_words(rows: list[int]) -> list[int]:
    """Limiter row numbers packed as a slot's `limiters` words; at most LIMITERS_PER_CALL."""
    if len(rows) > LIMITERS_PER_CALL:
        raise ValueError(f"{len(rows)} limiters on one call, at most {LIMITERS_PER_CALL}")
    words = [0] * LIMITER_SLOT_WORDS
    for place, row in enumerate(rows):
        words[place // ROWS_PER_WORD] |= row + 1 << _SHIFTS[place % ROWS_PER_WORD]
    if words[1]:
        words[0] |= MORE
    return words


def numbers_in(word: int) -> list[int]:
    """The limiter rows + 1 that one word names."""
    return [number for shift in _SHIFTS if (number := word >> shift & _ROW)]


def numbers_of(q: memoryview, own: int) -> list[int]:
    """The limiter rows + 1 of the call whose slot's words begin at `own`."""
    word = q[own + W_LIMITERS]
    numbers = numbers_in(word)
    if word & MORE:
        for at in range(own + W_LIMITERS + 1, own + W_LIMITERS + LIMITER_SLOT_WORDS):
            numbers += numbers_in(q[at])
    return numbers


def table_of(words: npt.NDArray[np.uint64]) -> Slots:
    """The rows + 1 that `words` of slots name, 0 where they name none: (slot, place)."""
    packed = words[:, W_LIMITERS : W_LIMITERS + LIMITER_SLOT_WORDS, np.newaxis]
    named = packed >> np.array(_SHIFTS, dtype=np.uint64) & np.uint64(_ROW)
    rows: Slots = named.reshape(len(words), LIMITER_SLOT_WORDS * ROWS_PER_WORD).astype(np.intp)
    return rows


def look_closer(q: memoryview, own: int) -> None:
    """`held_by`, `batch` or `budget` of the slot is about to become other than 0."""
    q[own + W_LIMITERS] |= CLOSER


def name(q: memoryview, own: int, words: list[int]) -> None:
    """Store packed `words`, and the mark if the slot has it; only under the queue lock, or in a
    slot that is its reader's alone."""
    at = own + W_LIMITERS
    closer = q[at] & CLOSER
    for offset in range(1, LIMITER_SLOT_WORDS):
        q[at + offset] = words[offset]
    q[at] = words[0] | closer


def clear(q: memoryview, own: int) -> None:
    """A slot of this reader alone names nothing any more, nor is it held, paid for or followed."""
    q[own + W_HELD_BY] = q[own + W_BATCH] = q[own + W_BUDGET] = 0
    for at in range(own + W_LIMITERS + LIMITER_SLOT_WORDS - 1, own + W_LIMITERS - 1, -1):
        q[at] = 0  # the mark last


def follow(q: memoryview, own: int, next_own: int, next_slot: int) -> None:
    """The call in `next_slot`, whose words begin at `next_own`, is the next of the batch."""
    look_closer(q, own)
    look_closer(q, next_own)  # whoever pays for it finds the mark
    q[own + W_BATCH] = q[next_own] >> 32 << 32 | next_slot + 1
