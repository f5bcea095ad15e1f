"""Calls that wait for a limiter to open: a chain per limiter, first in first out.

A call is held by the limiter that blocks it longest. `opens_ns` of a limiter is the time at which
it lets the next call through; the shard's `next_open_ns` is the earliest of those that hold calls,
so that one comparison per claim tells whether anything is due. Chains and counts are an index that
`rebuild` derives from the slots' words. Everything here runs with the queue lock held.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .layout import LIMITER, LIMITERS_PER_CALL, MAX_LEVELS, SHARD, SLOT, WORD, word_of
from .rings import SLOT_WORDS, W_NEXT, W_PREV, W_SEQ, Slots, follow
from .segment import Segment

LIMITER_WORDS = LIMITER.itemsize // WORD
L_OPENS, L_HEAD, L_TAIL, L_HELD = (
    word_of(LIMITER, name) for name in ("opens_ns", "head", "tail", "held")
)
W_LIMITERS = word_of(SLOT, "limiters")
W_HELD_BY = word_of(SLOT, "held_by")
ROWS_PER_WORD = 2


def limiter_words(rows: list[int]) -> list[int]:
    """Limiter row numbers packed as a slot's `limiters` words; at most LIMITERS_PER_CALL."""
    if len(rows) > LIMITERS_PER_CALL:
        raise ValueError(f"{len(rows)} limiters on one call, at most {LIMITERS_PER_CALL}")
    padded = [row + 1 for row in rows] + [0] * (LIMITERS_PER_CALL - len(rows))
    return [padded[i] | padded[i + 1] << 32 for i in range(0, LIMITERS_PER_CALL, ROWS_PER_WORD)]


class HeldChains:
    """Chains of HELD slots, by slot number + 1."""

    def __init__(self, segment: Segment, slot_words: npt.NDArray[np.uint64]) -> None:
        layout = segment.layout
        self._q = segment.q
        self._words = slot_words
        self._slots = layout.slots // WORD
        self._limiters = layout.limiters // WORD
        self._rows = segment.words(layout.limiters, segment.geometry.limiters * LIMITER_WORDS)
        self.next_open_word = segment.word(layout.shard, SHARD, "next_open_ns")
        self.level_held_word = segment.word(layout.shard, SHARD, "level_held")
        self.held_word = segment.word(layout.shard, SHARD, "held")

    def blocker(self, slot: int, now_ns: int) -> int:
        """The limiter row that keeps `slot` closed longest at `now_ns`; -1 if none does."""
        q, row, until = self._q, -1, now_ns
        own = self._slots + slot * SLOT_WORDS + W_LIMITERS
        for at in range(own, own + LIMITERS_PER_CALL // ROWS_PER_WORD):
            for number in (q[at] & 0xFFFF_FFFF, q[at] >> 32):
                if number:
                    opens = q[self._limiters + (number - 1) * LIMITER_WORDS + L_OPENS]
                    if opens > until:
                        row, until = number - 1, opens
        return row

    def append(self, row: int, slot: int, level: int) -> None:
        """`slot`, HELD by now, joins the chain of limiter `row`."""
        q, limiter = self._q, self._limiters + row * LIMITER_WORDS
        own = self._slots + slot * SLOT_WORDS
        last = q[limiter + L_TAIL]
        q[own + W_PREV], q[own + W_NEXT] = last, 0
        if last:
            q[self._slots + (last - 1) * SLOT_WORDS + W_NEXT] = slot + 1
        else:
            q[limiter + L_HEAD] = slot + 1
        q[limiter + L_TAIL] = slot + 1
        q[limiter + L_HELD] += 1
        q[self.level_held_word + level] += 1
        q[self.held_word] += 1
        opens, earliest = q[limiter + L_OPENS], q[self.next_open_word]
        if not earliest or opens < earliest:
            q[self.next_open_word] = opens

    def unlink(self, slot: int, level: int) -> None:
        """Take `slot` out of the chain that holds it."""
        q = self._q
        own = self._slots + slot * SLOT_WORDS
        limiter = self._limiters + (q[own + W_HELD_BY] - 1) * LIMITER_WORDS
        before, after = q[own + W_PREV], q[own + W_NEXT]
        if before:
            q[self._slots + (before - 1) * SLOT_WORDS + W_NEXT] = after
        else:
            q[limiter + L_HEAD] = after
        if after:
            q[self._slots + (after - 1) * SLOT_WORDS + W_PREV] = before
        else:
            q[limiter + L_TAIL] = before
        q[limiter + L_HELD] -= 1
        q[self.level_held_word + level] -= 1
        q[self.held_word] -= 1

    def first_open(self, now_ns: int) -> int:
        """The first slot of a chain whose limiter is open at `now_ns`; -1 and a new
        `next_open_ns` if there is none."""
        q, earliest = self._q, 0
        rows = self._rows.reshape(-1, LIMITER_WORDS)
        for row in np.flatnonzero(rows[:, L_HEAD]).tolist():
            limiter = self._limiters + row * LIMITER_WORDS
            opens = q[limiter + L_OPENS]
            if opens <= now_ns:
                return q[limiter + L_HEAD] - 1
            earliest = min(earliest or opens, opens)
        q[self.next_open_word] = earliest
        return -1

    def chain(self, row: int) -> list[int]:
        """The slots that limiter `row` holds, first to last; for audits. ValueError as `follow`."""
        head = self._limiters + row * LIMITER_WORDS + L_HEAD
        return follow(self._q, self._slots, head)

    def rebuild(self, held: Slots, levels: Slots) -> None:
        """Derive chains and counts from the words of the `held` slots, which are all there are."""
        q, words = self._q, self._words
        rows = self._rows.reshape(-1, LIMITER_WORDS)
        rows[:, [L_HEAD, L_TAIL, L_HELD]] = 0
        q[self.held_word], q[self.next_open_word] = 0, 0
        for level in range(MAX_LEVELS):
            q[self.level_held_word + level] = 0
        order = np.argsort(words[held, W_SEQ], kind="stable")
        for slot, level in zip(held[order].tolist(), levels[order].tolist(), strict=True):
            row = q[self._slots + slot * SLOT_WORDS + W_HELD_BY] - 1
            self.append(row, slot, level)
