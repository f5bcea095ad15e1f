"""The rings in which calls wait: per level and class a ring of *turns*, each a chain of slots.

A ring is a bitmap of its non-empty turns and, per turn, the first and the last slot of a doubly
linked chain. Turn `t` lies at place `t % turns`; a level's turns in use span less than `turns`, so
no two share a place. Service is in (turn, seq) order: identities in turn, first in first out within
one. With in-turn service off every call has the level's turn, and the order is that of arrival.

A level's turn grows with every draw. Only a rebuild moves it back, by MOST_BACK turns at most: to a
call that returns because its handler died, so that it gets its old place.

Where express handlers take SHORT calls (`express`), these go on while LONG ones wait at an earlier
turn. What they are ahead, `lead`, is added to the turn of a SHORT call when it comes, and taken off
where turns of both classes meet: so each ring has a turn of its own that all its calls are at or
behind, and what its callers had of the other ring's service changes nothing in it.

All of this is an index: `rebuild` derives it from the slots' words. Everything here runs with the
queue lock held.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import states
from .layout import CLASSES
from .ring_index import (
    MOST_BACK,
    SLOT_WORDS,
    W_CALL,
    W_NEXT,
    W_PREV,
    W_SEQ,
    W_TURN,
    RingIndex,
    Slots,
    follow,
)

__all__ = [
    "MOST_BACK",
    "SLOT_WORDS",
    "W_CALL",
    "W_NEXT",
    "W_PREV",
    "W_SEQ",
    "W_TURN",
    "Slots",
    "TurnRings",
    "follow",
]


class TurnRings(RingIndex):
    """Chains are by slot number + 1, so that a zeroed word is an empty one."""

    def append(self, level: int, cls: int, turn: int, slot: int) -> None:
        """Put `slot`, whose sequence number is the highest so far, behind its turn's chain."""
        q, slots, number = self._q, self._slots, level * CLASSES + cls
        ring = self._rings + number * self._stride
        place = turn % self.turns
        head = ring + self._bitmap + 2 * place
        own = slots + slot * SLOT_WORDS
        last = q[head + 1]
        if last:
            q[slots + (last - 1) * SLOT_WORDS + W_NEXT] = slot + 1
        else:
            q[head] = slot + 1
            q[ring + (place >> 6)] |= 1 << (place & 63)
        q[own + W_PREV] = last
        q[own + W_NEXT] = 0
        q[head + 1] = slot + 1
        q[self.waiting_word + number] += 1

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
        q, slots, number = self._q, self._slots, level * CLASSES + cls
        own = slots + slot * SLOT_WORDS
        before, after = q[own + W_PREV], q[own + W_NEXT]
        if before:
            q[slots + (before - 1) * SLOT_WORDS + W_NEXT] = after
        if after:
            q[slots + (after - 1) * SLOT_WORDS + W_PREV] = before
        if not (before and after):  # it is at an end, or alone
            ring = self._rings + number * self._stride
            place = q[own + W_TURN] % self.turns
            head = ring + self._bitmap + 2 * place
            if not before:
                q[head] = after
            if not after:
                q[head + 1] = before
                if not before:
                    q[ring + (place >> 6)] &= ~(1 << (place & 63))
        q[self.waiting_word + number] -= 1

    def lead_of(self, level: int, cls: int) -> int:
        """What is added to the turns of calls of that class."""
        return self._q[self.lead_word + level] if self.lead_word and not cls else 0

    def first_short(self, level: int) -> int:
        """The first SHORT call of `level`; -1 if none waits."""
        if not self._q[self.waiting_word + level * CLASSES + states.SHORT]:
            return -1
        return self._first(level, states.SHORT)

    def _first(self, level: int, cls: int) -> int:
        """The slot that comes first in (turn, seq) order; one waits."""
        q = self._q
        ring = self._rings + (level * CLASSES + cls) * self._stride
        place = q[self.turn_word + level]
        if self.lead_word and not cls:
            place += q[self.lead_word + level]
        place %= self.turns
        at, low = place >> 6, place & 63
        bits = q[ring + at] >> low << low
        if not bits:
            at = self._further(ring, at, level)
            bits = q[ring + at]
        place = (at << 6) + (bits & -bits).bit_length() - 1
        return q[ring + self._bitmap + 2 * place] - 1

    def _further(self, ring: int, at: int, level: int) -> int:
        """The word of a ring's bitmap, behind the one `at`, in which the first place lies that is
        not empty: all the way round, to the places before ours in the same word."""
        for _ in range(self._bitmap):
            at = at + 1 if at + 1 < self._bitmap else 0
            if self._q[ring + at]:
                return at
        raise ValueError(f"the bitmap of level {level} is empty, and calls wait there")

    def reach(self, level: int, turn: int) -> None:
        """The turn of `level` is `turn` now, if it was earlier: nothing waits before that."""
        at = self.turn_word + level
        if turn > self._q[at]:
            self._q[at] = turn

    def in_order(self, level: int) -> Iterator[int]:
        """The slots of `level` in (turn, seq) order; the one that was given may leave meanwhile."""
        q, slots = self._q, self._slots
        short, long = self._in_order(level, states.SHORT), self._in_order(level, states.LONG)
        a, b, lead = next(short, -1), next(long, -1), self.lead_of(level, states.SHORT)
        while a >= 0 and b >= 0:
            first, second = slots + a * SLOT_WORDS, slots + b * SLOT_WORDS
            turn = q[first + W_TURN] - lead
            if (turn, q[first + W_SEQ]) < (q[second + W_TURN], q[second + W_SEQ]):
                yield a
                a = next(short, -1)
            else:
                yield b
                b = next(long, -1)
        for slot, others in ((a, short), (b, long)):
            if slot >= 0:
                yield slot
                yield from others

    def _in_order(self, level: int, cls: int) -> Iterator[int]:
        """The slots of one ring: turn by turn from the level's on, all the way round."""
        q = self._q
        if not q[self.waiting_word + level * CLASSES + cls]:
            return
        ring = self._rings + (level * CLASSES + cls) * self._stride
        place = (q[self.turn_word + level] + self.lead_of(level, cls)) % self.turns
        first, low = place >> 6, place & 63
        for step in range(self._bitmap + 1):
            at = (first + step) % self._bitmap
            bits = q[ring + at]
            if step == 0:
                bits = bits >> low << low
            elif step == self._bitmap:  # the places before ours
                bits &= (1 << low) - 1
            while bits:
                place = at << 6 | ((bits & -bits).bit_length() - 1)
                bits &= bits - 1
                slot = q[ring + self._bitmap + 2 * place]
                while slot:
                    following = q[self._slots + (slot - 1) * SLOT_WORDS + W_NEXT]
                    yield slot - 1
                    slot = following

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
        now += self.lead_of(level, cls)
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
        q, waiting = self._q, self.waiting_word + level * CLASSES
        if not q[waiting + states.LONG]:
            return self._first(level, states.SHORT) if q[waiting + states.SHORT] else -1
        if not q[waiting + states.SHORT]:
            return self._first(level, states.LONG)
        short, long = self._first(level, states.SHORT), self._first(level, states.LONG)
        a, b = (self._slots + s * SLOT_WORDS for s in (short, long))
        turn = q[a + W_TURN] - q[self.lead_word + level] if self.lead_word else q[a + W_TURN]
        return short if (turn, q[a + W_SEQ]) < (q[b + W_TURN], q[b + W_SEQ]) else long

    def _head(self, level: int, cls: int, turn: int) -> int:
        ring = self._rings + (level * CLASSES + cls) * self._stride
        return ring + self._bitmap + 2 * (turn % self.turns)
