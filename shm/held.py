"""Calls that wait for a limiter to open: a heap per limiter and level, earliest turn first.

A call is held by the limiter that blocks it longest. At its opening a limiter lets go, of each
level, as many as it has room for; these are drawn like all others, by weight and in turn, and what
finds no room after all is held again, at its old turn. So an opening costs as much as it lets
through, however many wait, and a burst that was held is no queue of its own, ahead of all others.
`opened` counts those on their way; before they are drawn, no more are let go.

The shard's `next_open_ns` is the earliest time at which anything is due, so that one comparison per
claim tells. Heaps and counts are an index that `rebuild` derives from the slots' words. Everything
here runs with the queue lock held.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .heaps import SlotHeaps
from .layout import LIMITERS_PER_CALL, MAX_LEVELS, SHARD, SLOT, word_of
from .limiters import (
    L_CAP,
    L_HELD,
    L_HELD_NS,
    L_OPENED,
    L_OPENS,
    L_ROOT,
    L_RUNNING,
    Limiters,
)
from .rings import W_SEQ, W_TURN, Slots
from .segment import Segment

W_LIMITERS, W_HELD_BY, W_SINCE = (
    word_of(SLOT, name) for name in ("limiters", "held_by", "held_since_ns")
)
ROWS_PER_WORD = 2
LIMITER_SLOT_WORDS = LIMITERS_PER_CALL // ROWS_PER_WORD
MOST_NS = 2**64 - 1  # that calls have waited together: a thousand of them do so in 200 days
REBUILT, DUE = 1, 2  # ns: openings that have passed; after a rebuild all are looked at


def limiter_words(rows: list[int]) -> list[int]:
    """Limiter row numbers packed as a slot's `limiters` words; at most LIMITERS_PER_CALL."""
    if len(rows) > LIMITERS_PER_CALL:
        raise ValueError(f"{len(rows)} limiters on one call, at most {LIMITERS_PER_CALL}")
    padded = [row + 1 for row in rows] + [0] * (LIMITERS_PER_CALL - len(rows))
    return [padded[i] | padded[i + 1] << 32 for i in range(0, LIMITERS_PER_CALL, ROWS_PER_WORD)]


class HeldCalls:
    """Those of all limiters: slots that are HELD."""

    def __init__(
        self, segment: Segment, slot_words: npt.NDArray[np.uint64], limiters: Limiters
    ) -> None:
        layout = segment.layout
        self._q = segment.q
        self._words = slot_words
        self._heaps = SlotHeaps(segment, slot_words)
        self._limiters = limiters
        self._rows = limiters.rows
        self.next_open_word = segment.word(layout.shard, SHARD, "next_open_ns")
        self.level_held_word = segment.word(layout.shard, SHARD, "level_held")
        self.held_word = segment.word(layout.shard, SHARD, "held")

    def append(self, row: int, slot: int, level: int) -> None:
        """`slot`, HELD by now, joins those of limiter `row`."""
        q, limiter = self._q, self._limiters.at(row)
        self._heaps.link(limiter + L_ROOT + level, slot)
        q[limiter + L_HELD] += 1
        q[self.level_held_word + level] += 1
        q[self.held_word] += 1
        self.look(limiter)

    def unlink(self, slot: int, level: int) -> None:
        """Take `slot` from the limiter that holds it."""
        q = self._q
        limiter = self._limiters.at(q[self._heaps.own(slot + 1) + W_HELD_BY] - 1)
        self._heaps.cut(limiter + L_ROOT + level, slot)
        q[limiter + L_HELD] -= 1
        q[self.level_held_word + level] -= 1
        q[self.held_word] -= 1

    def move(self, slot: int, level: int, other: int, turn: int) -> None:
        """`slot` waits at another level from now on, at `turn` there; its state word follows."""
        q, own = self._q, self._heaps.own(slot + 1)
        limiter = self._limiters.at(q[own + W_HELD_BY] - 1)
        self._heaps.cut(limiter + L_ROOT + level, slot)
        q[own + W_TURN] = turn
        self._heaps.link(limiter + L_ROOT + other, slot)
        q[self.level_held_word + level] -= 1
        q[self.level_held_word + other] += 1

    def first(self, row: int, level: int) -> int:
        """The slot of `level` that limiter `row` lets go first; -1 if it holds none."""
        return self._q[self._limiters.at(row) + L_ROOT + level] - 1

    def let_go(self, slot: int, level: int, now_ns: int) -> None:
        """`slot` is about to be QUEUED: its limiter has opened."""
        q, own = self._q, self._heaps.own(slot + 1)
        limiter = self._limiters.at(q[own + W_HELD_BY] - 1)
        self.unlink(slot, level)
        q[limiter + L_OPENED] += 1
        waited_ns = max(0, now_ns - q[own + W_SINCE])
        q[limiter + L_HELD_NS] = min(q[limiter + L_HELD_NS] + waited_ns, MOST_NS)

    def drawn(self, own: int) -> None:
        """The QUEUED call with words at `own`, which a limiter has let go, leaves its ring."""
        q = self._q
        limiter = self._limiters.at(q[own + W_HELD_BY] - 1)
        q[limiter + L_OPENED] -= 1
        self.look(limiter)

    def look(self, limiter: int) -> None:
        """The limiter whose words begin there may let calls go sooner than is known."""
        q = self._q
        if (
            q[limiter + L_HELD]
            and not q[limiter + L_OPENED]
            and not self._limiters.is_full(limiter)
        ):
            opens, earliest = max(DUE, q[limiter + L_OPENS]), q[self.next_open_word]
            if not earliest or opens < earliest:
                q[self.next_open_word] = opens

    def due(self, now_ns: int) -> list[int]:
        """The limiters that are to let calls go now; `next_open_ns` becomes that of the others.

        After a rebuild also those that have let some go: whoever did it may have died in between.
        """
        rows, q = self._rows, self._q
        wait = rows[:, L_HELD] > 0
        if q[self.next_open_word] != REBUILT:
            wait &= rows[:, L_OPENED] == 0
        wait &= (rows[:, L_CAP] == 0) | (rows[:, L_RUNNING] < rows[:, L_CAP])
        found = np.flatnonzero(wait)
        opens = rows[found, L_OPENS]
        later = opens[opens > np.uint64(now_ns)]
        q[self.next_open_word] = int(later.min()) if len(later) else 0
        open_rows: list[int] = found[opens <= np.uint64(now_ns)].tolist()
        return [row for row in open_rows if not self._limiters.is_full(self._limiters.at(row))]

    def holding(self) -> list[int]:
        """The limiters that hold calls, or count some; for audits."""
        roots = self._rows[:, L_ROOT : L_ROOT + MAX_LEVELS].any(axis=1)
        rows: list[int] = np.flatnonzero(roots | (self._rows[:, L_HELD] > 0)).tolist()
        return rows

    def chain(self, row: int) -> list[int]:
        """The slots that limiter `row` holds, in order of arrival; for audits.

        ValueError if a link is broken, or one that lost has the earlier turn.
        """
        found: list[int] = []
        for level in range(MAX_LEVELS):
            found += self._heaps.members(self._limiters.at(row) + L_ROOT + level)
        return sorted(found, key=lambda slot: self._q[self._heaps.own(slot + 1) + W_SEQ])

    def rebuild(self, held: Slots, levels: Slots) -> None:
        """Derive heaps and counts from the words of the `held` slots, which are all there are.

        `opened` and `opens_ns` of the limiters are right by then.
        """
        q, words = self._q, self._words
        self._rows[:, L_HELD] = 0
        self._rows[:, L_ROOT : L_ROOT + MAX_LEVELS] = 0
        q[self.held_word], q[self.next_open_word] = 0, 0
        for level in range(MAX_LEVELS):
            q[self.level_held_word + level] = 0
        # From last to first, so that each is the earliest of its heap, and has one child.
        order = np.lexsort((words[held, W_SEQ], words[held, W_TURN]))[::-1]
        for slot, level in zip(held[order].tolist(), levels[order].tolist(), strict=True):
            self.append(q[self._heaps.own(slot + 1) + W_HELD_BY] - 1, slot, level)
        q[self.next_open_word] = REBUILT if len(held) else 0

    def counts_of(self, rows: Slots) -> None:
        """Store how often each limiter occurs in `rows` as its `opened`."""
        self._rows[:, L_OPENED] = np.bincount(rows, minlength=len(self._rows)).astype(np.uint64)
