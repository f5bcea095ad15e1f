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
from .layout import SHARD, SLOT, WORD, word_of
from .limiter_counters import L_CAP, L_FLAGS, L_HELD, L_HELD_NS, L_OPENED, L_OPENS, L_RUNNING
from .limiters import Limiters
from .rings import W_SEQ, W_TURN, Slots
from .segment import Segment
from .slot_limiters import W_HELD_BY
from .states import LEVEL_MASK, LEVEL_SHIFT
from .terms import LEARNS

W_SINCE = word_of(SLOT, "held_since_ns")
MOST_NS = 2**64 - 1  # that calls have waited together: a thousand of them do so in 200 days
REBUILT, DUE = 1, 2  # ns: openings that have passed; after a rebuild all are looked at
FIRST = 0  # the turn at which calls are held that a batch's head has paid for, before all others


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
        self._levels = levels = segment.geometry.ring_numbers
        self._root0 = layout.limiter_roots // WORD
        self._roots = segment.words(
            layout.limiter_roots, segment.geometry.limiters * levels
        ).reshape(-1, levels)
        self.next_open_word = segment.word(layout.shard, SHARD, "next_open_ns")
        self.level_held_word = layout.level_held // WORD
        self.level_opened_word = layout.level_opened // WORD
        self.held_word = segment.word(layout.shard, SHARD, "held")

    def append(self, row: int, slot: int, level: int) -> None:
        """`slot`, HELD by now, joins those of limiter `row`."""
        q, limiter = self._q, self._limiters.at(row)
        if not q[limiter + L_HELD]:
            self._limiters.changes()
        self._heaps.link(self.root(row, level), slot)
        q[limiter + L_HELD] += 1
        q[self.level_held_word + level] += 1
        q[self.held_word] += 1
        self.look(limiter)

    def unlink(self, slot: int, level: int) -> None:
        """Take `slot` from the limiter that holds it."""
        q = self._q
        row = q[self._heaps.own(slot + 1) + W_HELD_BY] - 1
        self._heaps.cut(self.root(row, level), slot)
        q[self._limiters.at(row) + L_HELD] -= 1
        q[self.level_held_word + level] -= 1
        q[self.held_word] -= 1

    def move(self, slot: int, level: int, other: int, turn: int) -> None:
        """`slot` waits at another level from now on, at `turn` there; its state word follows."""
        q, own = self._q, self._heaps.own(slot + 1)
        row = q[own + W_HELD_BY] - 1
        self._heaps.cut(self.root(row, level), slot)
        q[own + W_TURN] = turn
        self._heaps.link(self.root(row, other), slot)
        q[self.level_held_word + level] -= 1
        q[self.level_held_word + other] += 1

    def moved_opened(self, level: int, other: int) -> None:
        """A call that a limiter has let go waits at another level from now on."""
        self._q[self.level_opened_word + level] -= 1
        self._q[self.level_opened_word + other] += 1

    def first(self, row: int, level: int) -> int:
        """The slot of `level` that limiter `row` lets go first; -1 if it holds none."""
        return self._q[self.root(row, level)] - 1

    def root(self, row: int, level: int) -> int:
        """The word that names the first slot of `level` that limiter `row` holds."""
        return self._root0 + row * self._levels + level

    def let_go(self, slot: int, level: int, now_ns: int) -> None:
        """`slot` is about to be QUEUED: its limiter has opened."""
        q, own = self._q, self._heaps.own(slot + 1)
        limiter = self._limiters.at(q[own + W_HELD_BY] - 1)
        self.unlink(slot, level)
        q[limiter + L_OPENED] += 1
        q[self.level_opened_word + level] += 1
        waited_ns = max(0, now_ns - q[own + W_SINCE])
        q[limiter + L_HELD_NS] = min(q[limiter + L_HELD_NS] + waited_ns, MOST_NS)

    def drawn(self, own: int) -> None:
        """The QUEUED call with words at `own`, which a limiter has let go, leaves its ring."""
        q = self._q
        limiter = self._limiters.at(q[own + W_HELD_BY] - 1)
        q[limiter + L_OPENED] -= 1
        q[self.level_opened_word + (q[own] >> LEVEL_SHIFT & LEVEL_MASK)] -= 1
        self.look(limiter)

    def at_level(self, level: int) -> int:
        """Calls that limiters hold at `level`, or have let go and nobody has drawn yet."""
        return self._q[self.level_held_word + level] + self._q[self.level_opened_word + level]

    def look(self, limiter: int) -> None:
        """The limiter whose words begin there may let calls go sooner than is known."""
        q = self._q
        if (
            q[limiter + L_HELD]
            and not q[limiter + L_OPENED]
            and not self._limiters.is_full(limiter)
        ):
            opens, earliest = max(DUE, q[limiter + L_OPENS]), q[self.next_open_word]
            if self._limits_running(limiter) and self._holds_paid(limiter):
                opens = DUE
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
        for index in np.flatnonzero(opens > np.uint64(now_ns)).tolist():
            limiter = self._limiters.at(int(found[index]))
            if self._limits_running(limiter) and self._holds_paid(limiter):
                opens[index] = DUE
        later = opens[opens > np.uint64(now_ns)]
        q[self.next_open_word] = int(later.min()) if len(later) else 0
        open_rows: list[int] = found[opens <= np.uint64(now_ns)].tolist()
        return [row for row in open_rows if not self._limiters.is_full(self._limiters.at(row))]

    def is_paid(self, row: int, level: int) -> bool:
        """Whether the first that limiter `row` holds at `level` needs only a place to run."""
        number = self._q[self.root(row, level)]
        return bool(number) and self._q[self._heaps.own(number) + W_TURN] == FIRST

    def _limits_running(self, limiter: int) -> bool:
        """Whether it can hold what is paid for: until another call has ended."""
        return bool(self._q[limiter + L_CAP] or self._q[limiter + L_FLAGS] & LEARNS)

    def _holds_paid(self, limiter: int) -> bool:
        row = (limiter - self._limiters.first) // self._limiters.stride
        return any(self.is_paid(row, level) for level in range(self._levels))

    def holding(self) -> list[int]:
        """The limiters that hold calls, or count some; for audits."""
        roots = self._roots.any(axis=1)
        rows: list[int] = np.flatnonzero(roots | (self._rows[:, L_HELD] > 0)).tolist()
        return rows

    def chain(self, row: int) -> list[int]:
        """The slots that limiter `row` holds, in order of arrival; for audits.

        ValueError if a link is broken, or one that lost has the earlier turn.
        """
        found: list[int] = []
        for level in range(self._levels):
            found += self._heaps.members(self.root(row, level))
        return sorted(found, key=lambda slot: self._q[self._heaps.own(slot + 1) + W_SEQ])

    def rebuild(self, held: Slots, levels: Slots) -> None:
        """Derive heaps and counts from the words of the `held` slots, which are all there are.

        `opened` and `opens_ns` of the limiters are right by then.
        """
        q, words, rows = self._q, self._words, self._rows
        by = words[held, W_HELD_BY].astype(np.intp) - 1
        rows[:, L_HELD] = np.bincount(by, minlength=len(rows)).astype(np.uint64)
        self._roots[:] = 0
        q[self.held_word] = len(held)
        self._put_levels(self.level_held_word, levels)
        heap = by * self._levels + levels
        order = np.lexsort((words[held, W_SEQ], words[held, W_TURN], heap))
        firsts = self._heaps.chain(held[order], heap[order])
        first_by, first_level = by[order][firsts], levels[order][firsts]
        self._roots[first_by, first_level] = (held[order][firsts] + 1).astype(np.uint64)
        q[self.next_open_word] = REBUILT if len(held) else 0

    def counts_of(self, rows: Slots, levels: Slots) -> None:
        """Store how often each limiter, and each level, occurs as its `opened`."""
        self._rows[:, L_OPENED] = np.bincount(rows, minlength=len(self._rows)).astype(np.uint64)
        self._put_levels(self.level_opened_word, levels)

    def _put_levels(self, at: int, levels: Slots) -> None:
        for level, count in enumerate(np.bincount(levels, minlength=self._levels).tolist()):
            self._q[at + level] = count
