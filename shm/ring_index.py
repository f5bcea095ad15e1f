"""The rings as an index of the slots' words: where they lie, how they are derived, and audits.

Everything here runs with the queue lock held; what is done with the rings is in `rings`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import states
from .layout import CLASSES, SLOT, WORD, word_of
from .segment import Segment

SLOT_WORDS = SLOT.itemsize // WORD
W_SEQ, W_TURN, W_NEXT, W_PREV = (word_of(SLOT, name) for name in ("seq", "turn", "next", "prev"))
W_CALL, _W_CHILD = word_of(SLOT, "call"), word_of(SLOT, "child")
MOST_BACK = 64  # turns; who comes anew gets the level's turn, and so this many calls ahead at most

Slots = npt.NDArray[np.intp]
Turns = npt.NDArray[np.uint64]


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


class RingIndex:
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
        self.turn_word = layout.level_turns // WORD
        # Turns that the SHORT ring of each level is ahead; 0: there is nobody to move it.
        self.lead_word = layout.short_leads // WORD if geometry.has_express else 0
        self._leads = segment.words(layout.short_leads, geometry.ring_numbers)
        self._turns = segment.words(layout.level_turns, geometry.ring_numbers)
        self.waiting_word = layout.level_waiting // WORD
        self._waiting = segment.words(layout.level_waiting, geometry.ring_numbers * CLASSES)

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
        lead, turn = self._leads_of(queued), self.by_level(queued, words[queued, W_TURN])
        if in_turn:
            self._move_back(level, turn)
        base = self._turns[level]
        turn = np.clip(turn, base, base + np.uint64(self.turns - 1)) + lead
        words[queued, W_TURN] = turn
        ring = level * CLASSES + cls
        order = np.lexsort((words[queued, W_SEQ], turn, ring))
        self._link(queued[order], ring[order], (turn[order] % np.uint64(self.turns)).astype(int))
        self._waiting[:] = np.bincount(ring, minlength=len(self._waiting)).astype(np.uint64)

    def rebuild_held(self, held: Slots) -> None:
        """A HELD call has a turn by its level's count. Who died while one was let go may have added
        what the SHORT ring is ahead: off again, for it would wait for so many turns more.

        Such a one has left its heap, where only the first has no neighbours, and names a turn.
        """
        if not self.lead_word:
            return
        words = self._words[held]
        turn, lead = words[:, W_TURN], self._leads_of(held)
        added = turn >= self._turns[self.levels_of(held)] + lead
        added &= ~words[:, [W_PREV, W_NEXT]].any(axis=1) & (words[:, _W_CHILD] > 0)
        self._words[held, W_TURN] = np.where(added, turn - lead, turn)

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

    def levels_of(self, slots: Slots) -> Slots:
        """The level in each slot's state word."""
        word = self._words[slots, 0] >> np.uint64(states.LEVEL_SHIFT)
        levels: Slots = (word & np.uint64(states.LEVEL_MASK)).astype(np.intp)
        return levels

    def by_level(self, queued: Slots, turn: Turns) -> Turns:
        """The turns of `queued` slots, as they stand in their rings, by their levels' counts."""
        lead = self._leads_of(queued)
        counted: Turns = np.maximum(turn, lead) - lead
        return counted

    def _leads_of(self, slots: Slots) -> Turns:
        """What is added to the turns of calls of their classes."""
        short = self._classes_of(slots) == states.SHORT
        leads: Turns = np.where(short, self._leads[self.levels_of(slots)], np.uint64(0))
        return leads

    def _classes_of(self, slots: Slots) -> Slots:
        word = self._words[slots, W_CALL] >> np.uint64(states.CLASS_SHIFT)
        classes: Slots = (word & np.uint64(1)).astype(np.intp)
        return classes
