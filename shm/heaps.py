"""Heaps of slots, the earliest (turn, seq) first: pairing heaps over three words of a slot.

    child    the first of those that lost against it
    next     the next one that lost against the same
    prev     the one before it, or against whom it lost, if it is the first

Slots are named by their number + 1, so that a zeroed word is an empty heap. An insertion takes two
stores and a comparison, a removal the logarithm of that; all of it is an index, and runs with the
queue lock held.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .layout import SLOT, WORD, word_of
from .rings import SLOT_WORDS, W_NEXT, W_PREV, W_SEQ, W_TURN, Slots
from .segment import Segment

W_CHILD = word_of(SLOT, "child")


class SlotHeaps:
    """A heap is known by the word that names its root."""

    def __init__(self, segment: Segment, slot_words: npt.NDArray[np.uint64]) -> None:
        self._q, self._words = segment.q, slot_words
        self._slots = segment.layout.slots // WORD

    def own(self, number: int) -> int:
        """Where the words of a slot begin, by its number + 1."""
        return self._slots + (number - 1) * SLOT_WORDS

    def link(self, root: int, slot: int) -> None:
        """`slot` joins the heap of the word `root`."""
        q, own = self._q, self.own(slot + 1)
        q[own + W_PREV] = q[own + W_NEXT] = q[own + W_CHILD] = 0
        q[root] = self._meld(q[root], slot + 1)

    def cut(self, root: int, slot: int) -> None:
        """`slot` leaves the heap of the word `root`, which it is in."""
        q, own = self._q, self.own(slot + 1)
        before, after = q[own + W_PREV], q[own + W_NEXT]
        below = self._merged(q[own + W_CHILD])
        q[own + W_PREV] = q[own + W_NEXT] = q[own + W_CHILD] = 0
        if q[root] == slot + 1:
            q[root] = below
            return
        is_child = q[self.own(before) + W_CHILD] == slot + 1
        q[self.own(before) + (W_CHILD if is_child else W_NEXT)] = after
        if after:
            q[self.own(after) + W_PREV] = before
        q[root] = self._meld(q[root], below)

    def _meld(self, one: int, other: int) -> int:
        """The root of two heaps as one; both roots have no neighbours."""
        if not one or not other:
            return one or other
        if self._is_before(other, one):
            one, other = other, one
        q, winner, loser = self._q, self.own(one), self.own(other)
        first = q[winner + W_CHILD]
        q[loser + W_NEXT], q[loser + W_PREV] = first, one
        if first:
            q[self.own(first) + W_PREV] = other
        q[winner + W_CHILD] = other
        return one

    def _merged(self, first: int) -> int:
        """The root of the heap of all siblings from `first` on: in pairs, then all pairs."""
        q, pairs = self._q, 0
        while first:
            second = q[self.own(first) + W_NEXT]
            rest = q[self.own(second) + W_NEXT] if second else 0
            self._alone(first)
            if second:
                self._alone(second)
            pair = self._meld(first, second)
            q[self.own(pair) + W_NEXT] = pairs
            pairs, first = pair, rest
        root = 0
        while pairs:
            rest = q[self.own(pairs) + W_NEXT]
            self._alone(pairs)
            root = self._meld(root, pairs)
            pairs = rest
        return root

    def _alone(self, number: int) -> None:
        own = self.own(number)
        self._q[own + W_NEXT] = self._q[own + W_PREV] = 0

    def _is_before(self, one: int, other: int) -> bool:
        q, a, b = self._q, self.own(one), self.own(other)
        return (q[a + W_TURN], q[a + W_SEQ]) < (q[b + W_TURN], q[b + W_SEQ])

    def chain(self, slots: Slots, heap: Slots) -> Slots:
        """Make a heap of the slots of each `heap`, sorted by it and from first to last: each of
        them has one child, the next one. Where in `slots` the first of each is."""
        words = self._words
        same = heap[1:] == heap[:-1]
        first, last = np.concatenate(([True], ~same)), np.concatenate((~same, [True]))
        if not len(slots):
            return np.empty(0, np.intp)
        number = slots.astype(np.uint64) + np.uint64(1)
        words[slots, W_NEXT] = 0
        words[slots, W_PREV] = np.where(first, 0, np.roll(number, 1))
        words[slots, W_CHILD] = np.where(last, 0, np.roll(number, -1))
        return np.flatnonzero(first)

    def members(self, root: int) -> list[int]:
        """The slots of one heap; for audits.

        ValueError if a link is broken, or one that lost has the earlier turn.
        """
        q = self._q
        found: list[int] = []
        todo = [(q[root], 0)]
        while todo:
            number, before = todo.pop()
            parent = before
            while number:
                own = self.own(number)
                if q[own + W_PREV] != before or len(found) > len(self._words):
                    raise ValueError(f"the chain is broken at slot {number - 1}")
                if parent and self._is_before(number, parent):
                    raise ValueError(f"slot {number - 1} is held behind a later one")
                found.append(number - 1)
                todo.append((q[own + W_CHILD], number))
                before, number = number, q[own + W_NEXT]
        return found
