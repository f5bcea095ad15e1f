"""The rings in which calls wait: per level and class a ring of *turns*, each a chain of slots.

A ring is a bitmap of its non-empty turns and, per turn, the first and the last slot of a doubly
linked chain. Turn `t` lies at place `t % turns`; a level's turns in use span less than `turns`, so
no two share a place. Service is in (turn, seq) order: identities in turn, first in first out within
one. With in-turn service off every call has the level's turn, and the order is that of arrival.

A level's turn grows with every draw. Only a rebuild moves it back, by MOST_BACK turns at most: to a
call that returns because its handler died, so that it gets its old place.

All of this is an index: `rebuild` derives it from the slots' words. Everything here runs with the
queue lock held.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import states
from .layout import CLASSES, MAX_LEVELS, SHARD, SLOT, WORD, word_of
from .segment import Segment

SLOT_WORDS = SLOT.itemsize // WORD
W_SEQ, W_TURN, W_NEXT, W_PREV = (word_of(SLOT, name) for name in ("seq", "turn", "next", "prev"))
W_CALL = word_of(SLOT, "call")
MOST_BACK = 64  # turns; who comes anew gets the level's turn, and so this many calls ahead at most

Slots = npt.NDArray[np.intp]


def follow(q: memoryview, slot0: int, head: int) -> list[int]:
    """The slots of the chain whose first and last are named by the words `head` and `head` + 1.

    ValueError if a link back or the end is another. (A loop would come back to a slot by another
    link than the first time.)
    """
    slots: list[int] = []
    at, before = q[head], 0
    while at:
        own = slot0 + (at - 1) * SLOT_WORDS
        if q[own + W_PREV] != before:
            raise ValueError(f"the chain is broken at slot {at - 1}, which names another before it")
        slots.append(at - 1)
        before, at = at, q[own + W_NEXT]
    if q[head + 1] != before:
        raise ValueError(f"the chain ends at slot {before - 1}, not at {q[head + 1] - 1}")
    return slots


class TurnRings:
    """Chains are by slot number + 1, so that a zeroed word is an empty one."""

    def __init__(self, segment: Segment, slot_words: npt.NDArray[np.uint64]) -> None:
        geometry, layout = segment.geometry, segment.layout
        self.turns = geometry.turns
        self._q = segment.q
        self._words = slot_words  # shape (calls, SLOT_WORDS)
        self._slots = layout.slots // WORD
        self._rings = layout.rings // WORD
        self._stride = geometry.ring_words
        self._bitmap = geometry.bitmap_words
        self._ring_words = segment.words(
            layout.rings, geometry.rings * CLASSES * geometry.ring_words
        ).reshape(geometry.rings * CLASSES, geometry.ring_words)
        self.turn_word = segment.word(layout.shard, SHARD, "turn")
        self._turns = segment.words(self.turn_word * WORD, MAX_LEVELS)
        self.waiting_word = segment.word(layout.shard, SHARD, "level_waiting")
        self._waiting = segment.words(self.waiting_word * WORD, MAX_LEVELS * CLASSES)

    def append(self, level: int, cls: int, turn: int, slot: int) -> None:
        """Put `slot`, whose sequence number is the highest so far, behind its turn's chain."""
        q = self._q
        ring = self._rings + (level * CLASSES + cls) * self._stride
        place = turn % self.turns
        head = ring + self._bitmap + 2 * place
        own = self._slots + slot * SLOT_WORDS
        last = q[head + 1]
        if last:
            q[self._slots + (last - 1) * SLOT_WORDS + W_NEXT] = slot + 1
        else:
            q[head] = slot + 1
            q[ring + (place >> 6)] |= 1 << (place & 63)
        q[own + W_PREV] = last
        q[own + W_NEXT] = 0
        q[head + 1] = slot + 1
        q[self.waiting_word + level * CLASSES + cls] += 1

    def insert(self, level: int, cls: int, turn: int, slot: int, near: int = -1) -> None:
        """Put `slot` where its sequence number belongs in its turn's chain.

        It is looked for from `near` on, a slot of that chain; from the head on without one.
        """
        q = self._q
        head = self._head(level, cls, turn)
        seq = q[self._slots + slot * SLOT_WORDS + W_SEQ]
        before, after = 0, q[head]
        if near >= 0:
            before, after = q[self._slots + near * SLOT_WORDS + W_PREV], near + 1
        while after and q[self._slots + (after - 1) * SLOT_WORDS + W_SEQ] < seq:
            before, after = after, q[self._slots + (after - 1) * SLOT_WORDS + W_NEXT]
        while before and q[self._slots + (before - 1) * SLOT_WORDS + W_SEQ] > seq:
            before, after = q[self._slots + (before - 1) * SLOT_WORDS + W_PREV], before
        if not after:
            self.append(level, cls, turn, slot)
            return
        own = self._slots + slot * SLOT_WORDS
        q[own + W_PREV], q[own + W_NEXT] = before, after
        q[self._slots + (after - 1) * SLOT_WORDS + W_PREV] = slot + 1
        if before:
            q[self._slots + (before - 1) * SLOT_WORDS + W_NEXT] = slot + 1
        else:
            q[head] = slot + 1
        q[self.waiting_word + level * CLASSES + cls] += 1

    def unlink(self, level: int, cls: int, slot: int) -> None:
        """Take `slot` out of its chain."""
        q = self._q
        own = self._slots + slot * SLOT_WORDS
        ring = self._rings + (level * CLASSES + cls) * self._stride
        place = q[own + W_TURN] % self.turns
        head = ring + self._bitmap + 2 * place
        before, after = q[own + W_PREV], q[own + W_NEXT]
        if before:
            q[self._slots + (before - 1) * SLOT_WORDS + W_NEXT] = after
        else:
            q[head] = after
        if after:
            q[self._slots + (after - 1) * SLOT_WORDS + W_PREV] = before
        else:
            q[head + 1] = before
        if not q[head]:
            q[ring + (place >> 6)] &= ~(1 << (place & 63))
        q[self.waiting_word + level * CLASSES + cls] -= 1

    def first(self, level: int, cls: int) -> int:
        """The slot that comes first in (turn, seq) order; -1 if none waits."""
        q = self._q
        if not q[self.waiting_word + level * CLASSES + cls]:
            return -1
        ring = self._rings + (level * CLASSES + cls) * self._stride
        place = q[self.turn_word + level] % self.turns
        at, low = place >> 6, place & 63
        bits = q[ring + at] >> low << low
        for _ in range(self._bitmap):
            if bits:
                break
            at = at + 1 if at + 1 < self._bitmap else 0
            bits = q[ring + at]
        else:
            bits = q[ring + at] & ((1 << low) - 1)  # all the way round: the places before ours
        place = at << 6 | ((bits & -bits).bit_length() - 1)
        return q[ring + self._bitmap + 2 * place] - 1

    def latest_turn(self, level: int) -> int:
        """The latest turn at which a call of `level` waits; the level's own if none does."""
        now = self._q[self.turn_word + level]
        return now + max(self._span(level, states.SHORT, now), self._span(level, states.LONG, now))

    def _span(self, level: int, cls: int, now: int) -> int:
        """How many turns after `now` the last call of a ring waits: the place farthest round."""
        q = self._q
        if not q[self.waiting_word + level * CLASSES + cls]:
            return 0
        ring = self._rings + (level * CLASSES + cls) * self._stride
        at, low = now % self.turns >> 6, now % self.turns & 63
        bits = q[ring + at] & ((1 << low) - 1)
        for _ in range(self._bitmap):
            if bits:
                break
            at = at - 1 if at else self._bitmap - 1
            bits = q[ring + at]
        else:
            bits = q[ring + at] & ~((1 << low) - 1)
        return ((at << 6 | (bits.bit_length() - 1)) - now) % self.turns

    def first_of_level(self, level: int) -> int:
        """The smaller by (turn, seq) of both classes' first slots; -1 if none waits."""
        q = self._q
        short, long = self.first(level, states.SHORT), self.first(level, states.LONG)
        if short < 0 or long < 0:
            return short if long < 0 else long
        a, b = (self._slots + s * SLOT_WORDS for s in (short, long))
        return short if (q[a + W_TURN], q[a + W_SEQ]) < (q[b + W_TURN], q[b + W_SEQ]) else long

    def reach(self, slot: int) -> None:
        """`slot`, the first of its level, is drawn: nothing waits there at an earlier turn."""
        q, own = self._q, self._slots + slot * SLOT_WORDS
        at = self.turn_word + (q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK)
        if q[own + W_TURN] > q[at]:
            q[at] = q[own + W_TURN]

    def chain(self, level: int, cls: int, place: int) -> list[int]:
        """The slots of one place's chain, first to last; for audits. ValueError as `follow`."""
        head = self._rings + (level * CLASSES + cls) * self._stride + self._bitmap + 2 * place
        return follow(self._q, self._slots, head)

    def places(self, level: int, cls: int) -> list[int]:
        """The places that the bitmap says are not empty; for audits."""
        ring = self._ring_words[level * CLASSES + cls, : self._bitmap]
        bits = np.unpackbits(ring.view(np.uint8), bitorder="little")
        return [int(place) for place in np.flatnonzero(bits)]

    def occupied(self, level: int, cls: int) -> list[int]:
        """The places that have a first or a last slot: the same ones; for audits."""
        ends = self._ring_words[level * CLASSES + cls, self._bitmap :].reshape(-1, 2)
        return [int(place) for place in np.flatnonzero(ends.any(axis=1))]

    def rebuild(self, queued: Slots, in_turn: bool) -> None:
        """Derive every ring from the words of the `queued` slots, which are all that wait."""
        words = self._words
        self._ring_words[:] = 0
        self._waiting[:] = 0
        if not len(queued):
            return
        level, cls = self.levels_of(queued), self._classes_of(queued)
        turn = words[queued, W_TURN]
        if in_turn:
            self._move_back(level, turn)
        base = self._turns[level]
        turn = np.clip(turn, base, base + np.uint64(self.turns - 1))
        words[queued, W_TURN] = turn
        ring = level * CLASSES + cls
        order = np.lexsort((words[queued, W_SEQ], turn, ring))
        self._link(queued[order], ring[order], (turn[order] % np.uint64(self.turns)).astype(int))
        self._waiting[:] = np.bincount(ring, minlength=MAX_LEVELS * CLASSES).astype(np.uint64)

    def _move_back(self, level: Slots, turn: npt.NDArray[np.uint64]) -> None:
        """Each level's turn goes back to its earliest call's, while its latest fits in the ring."""
        now, span = self._turns.copy(), np.uint64(self.turns - 1)
        first, last = now.copy(), now.copy()
        np.minimum.at(first, level, turn)
        np.maximum.at(last, level, turn)
        least = np.maximum(last - np.minimum(last, span), now - np.minimum(now, MOST_BACK))
        self._turns[:] = np.maximum(first, np.minimum(least, now))

    def _link(self, slots: Slots, ring: Slots, place: Slots) -> None:
        """Chain `slots`, sorted by (ring, turn, seq), and set heads, tails and bitmaps."""
        words, rings = self._words, self._ring_words
        same = (ring[1:] == ring[:-1]) & (place[1:] == place[:-1])
        first = np.concatenate(([True], ~same))
        last = np.concatenate((~same, [True]))
        number = slots.astype(np.uint64) + np.uint64(1)
        words[slots, W_PREV] = np.where(first, 0, np.roll(number, 1))
        words[slots, W_NEXT] = np.where(last, 0, np.roll(number, -1))
        rings[ring[first], self._bitmap + 2 * place[first]] = number[first]
        rings[ring[last], self._bitmap + 2 * place[last] + 1] = number[last]
        bit = np.uint64(1) << (place[first] & 63).astype(np.uint64)
        np.bitwise_or.at(rings, (ring[first], place[first] >> 6), bit)

    def _head(self, level: int, cls: int, turn: int) -> int:
        ring = self._rings + (level * CLASSES + cls) * self._stride
        return ring + self._bitmap + 2 * (turn % self.turns)

    def levels_of(self, slots: Slots) -> Slots:
        """The level in each slot's state word."""
        word = self._words[slots, 0] >> np.uint64(states.LEVEL_SHIFT)
        levels: Slots = (word & np.uint64(states.LEVEL_MASK)).astype(np.intp)
        return levels

    def _classes_of(self, slots: Slots) -> Slots:
        word = self._words[slots, W_CALL] >> np.uint64(states.CLASS_SHIFT)
        classes: Slots = (word & np.uint64(1)).astype(np.intp)
        return classes
