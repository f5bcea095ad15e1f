"""What follows a death: rebuilding an index from the slots' words, and reaping.

A rebuild runs with its lock held, in whoever takes the lock next; it may be repeated and trusts no
index. Reaping is the janitor's, and only after the dead process was waited for: from then on it
cannot write any more. A janitor that dies while it reaps has its work repeated by the next one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from . import states
from .audit import audit
from .budgets import AGAIN, W_CLAIMED
from .handler_bits import rebuild_bits
from .heaps import W_CHILD
from .joint import began_with
from .layout import GROUP_SHIFT, IDENTITY, PROCESS, SLOT, WORD, word_of
from .rings import SLOT_WORDS, W_CALL, W_SEQ, W_TURN, Slots
from .settlement import redo
from .slot_limiters import W_BUDGET, W_LIMITERS, clear, look_closer
from .states import ABANDONED, DONE, HELD, QUEUED, RUNNING

if TYPE_CHECKING:
    from .table import CallTable

W_ANSWER, W_PRINCIPAL, W_SPENT = (
    word_of(SLOT, name) for name in ("answer", "principal", "spent_ns")
)
W_CURRENT = word_of(PROCESS, "current")
IDENTITY_WORDS = IDENTITY.itemsize // WORD


class Recovery:
    """Works on the table that it is given; the lock of what it rebuilds is held by the caller."""

    def __init__(self, table: CallTable) -> None:
        self.table = table
        g, layout = table.geometry, table.segment.layout
        self._words = table.words
        self.principal_waiting = table.segment.words(
            layout.identities, g.identities * IDENTITY_WORDS
        ).reshape(-1, IDENTITY_WORDS)[:, word_of(IDENTITY, "waiting")]
        self._process0 = layout.processes // WORD
        size = g.identities * g.groups if g.groups > 1 else 0
        self.group_waiting = table.segment.words(layout.group_waiting, size).reshape(-1, g.groups)

    # -- rebuilding ------------------------------------------------------------------------------

    def rebuild_queue(self) -> None:
        """Rings, held chains, counts, cursor and idle bits, from the slots' words."""
        table, q = self.table, self.table.q
        policy = table.load_policy()
        self._move_to_lowest(policy.levels)
        queued, held = self.slots_in(QUEUED), self.slots_in(HELD)
        table.rings.rebuild(queued, policy.in_turn)
        table.rings.rebuild_held(held)
        table.budgets.rebuild(queued, self._levels(queued), held, self.claimed())
        table.held.rebuild(held, self._levels(held))
        groups = self._levels(queued) >> GROUP_SHIFT
        for group, draws in enumerate(table.group_draws):
            q[draws.gathering_word] = 0
            q[draws.waiting_word] = int((groups == group).sum())
        waiting = np.concatenate((queued, held))
        table.backlogs.rebuild(waiting)
        rows = (self._words[waiting, W_PRINCIPAL] & np.uint64(0xFFFF_FFFF)).astype(np.intp)
        self.principal_waiting[:] = np.bincount(rows, minlength=len(self.principal_waiting)).astype(
            np.uint64
        )
        for group in range(self.group_waiting.shape[1] if len(self.group_waiting) else 0):
            mine = rows[self._levels(waiting) >> GROUP_SHIFT == group]
            counts = np.bincount(mine, minlength=len(self.group_waiting))
            self.group_waiting[:, group] = counts.astype(np.uint64)
        self._clamp(policy.weights, waiting)

    def _move_to_lowest(self, levels: int) -> None:
        """Calls that wait on a level that is no more go to the lowest one of their group, as many
        turns ahead."""
        for state in (QUEUED, HELD):
            for slot in self.slots_in(state).tolist():
                own = self.table.slot0 + slot * SLOT_WORDS
                level = self.table.q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
                base = level >> GROUP_SHIFT << GROUP_SHIFT
                if levels <= level - base < self.table.geometry.levels:
                    self._move(own, level, base + levels - 1)

    def _move(self, own: int, level: int, lowest: int) -> None:
        q, rings, callers = self.table.q, self.table.rings, self.table.turns
        cls = q[own + W_CALL] >> states.CLASS_SHIFT & 1
        waits = q[own] & states.STATE_MASK == QUEUED  # and has a place in its ring
        ahead = q[own + W_TURN] - q[rings.turn_word + level]
        ahead = max(0, ahead - rings.lead_of(level, cls) if waits else ahead)
        turn = q[rings.turn_word + lowest] + min(ahead, rings.turns - 1)
        row = q[own + W_PRINCIPAL] & 0xFFFF_FFFF
        # Its later calls come behind.
        callers.note(row, lowest, cls, max(callers.last(row, lowest), turn))
        q[own + W_CHILD] = turn
        q[own + W_TURN] = turn + rings.lead_of(lowest, cls) if waits else turn
        cleared = q[own] & ~(states.LEVEL_MASK << states.LEVEL_SHIFT)
        q[own] = cleared | lowest << states.LEVEL_SHIFT  # <- moved here

    def _clamp(self, weights: tuple[int, ...], waiting: Slots) -> None:
        table, q = self.table, self.table.q
        self.clamp_cursor(weights)
        if len(waiting):
            newest = int(self._words[waiting, W_SEQ].max())
            q[table.seq_word] = max(q[table.seq_word], newest + 1)
        rebuild_bits(table, self.claimed())

    def clamp_cursor(self, weights: tuple[int, ...]) -> None:
        """Each cursor stays on a level that there is, with no more than its weight."""
        q, express = self.table.q, (each.draws for each in self.table.express if each)
        for draws in (*self.table.group_draws, *express):
            q[draws.cursor_word] %= len(weights)
            weight = weights[q[draws.cursor_word]]
            if not 1 <= q[draws.credit_word] <= weight:
                q[draws.credit_word] = weight

    def rebuild_answers(self, reader: int) -> None:
        """The answer ring of `reader`: its DONE slots."""
        table, q = self.table, self.table.q
        ring = table.answers0 + reader * table.answer_stride
        entries = ring + table.answer_stride - table.slots_per_reader
        done = self.slots_of(reader, DONE)
        q[ring], q[ring + 1] = 0, 0
        for index, slot in enumerate(done):
            q[entries + index] = slot
        q[ring + 1] = len(done)

    # -- reaping: only after waitpid ---------------------------------------------------------------

    def touch_locks(self) -> int:
        """Take every lock of the table and its pages once; returns how many had a dead owner."""
        locks = (self.table.queue_lock, *self.table.answer_locks, self.table.pages.lock)
        return sum(lock.touch() for lock in locks)

    def reap_handler(self, handler: int, now_ns: int = 0) -> dict[str, list[int]]:
        """Settle the calls that the dead `handler` had claimed; slots by what became of them.

        `answered`: the answer was complete. `died`: it was running; its client gets an error.
        `requeued`: it never began, or is idempotent and may run again; it waits at its old place.
        """
        table = self.table
        self.touch_locks()
        redo(table.segment, table.geometry.readers + handler)
        claimed = self.claimed_by(handler)
        self._free_answer_pages(claimed)
        outcomes: dict[str, list[int]] = {"answered": [], "died": [], "requeued": []}
        current = self._current(handler)
        together = max(1, len(self.began(handler)))
        for reader in range(table.geometry.readers):
            slots = [slot for slot in claimed if slot // table.slots_per_reader == reader]
            if not slots:
                continue
            with table.answer_locks[reader]:
                for slot in slots:
                    self._settle_budget(current, slot, now_ns, together)
                    outcomes[self._settle(current, reader, slot)].append(slot)
                self._requeue([slot for slot in slots if slot in outcomes["requeued"]], current)
        with table.queue_lock:
            self.rebuild_queue()
            table.q[table.idle_word + (handler >> 6)] &= ~(1 << (handler & 63))
            table.q[table.taken_word + (handler >> 6)] |= 1 << (handler & 63)
        return outcomes

    def claimed_by(self, handler: int) -> list[int]:
        """The slots that the dead `handler` owns: nobody but the janitor moves them on."""
        owners = self._words[:, 0] >> np.uint64(states.OWNER_SHIFT) & np.uint64(states.OWNER_MASK)
        both = self.claimed()
        claimed: list[int] = both[owners[both] == np.uint64(handler)].tolist()
        return claimed

    def _free_answer_pages(self, claimed: list[int]) -> None:
        """Before a slot goes on: later, its pages of that generation may be another answer's."""
        for slot in claimed:
            own = self.table.slot0 + slot * SLOT_WORDS
            generation = self.table.q[own] >> states.GENERATION_SHIFT
            if not is_complete(self.table.q[own + W_ANSWER], generation):
                self.table.pages.give_back_unlinked(slot)

    def began(self, handler: int) -> list[int]:
        """The calls of the dead `handler` that had begun: one, or all of a joint run; their slots.

        Those whose answers are complete are among them until they are settled.
        """
        current = self._current(handler)
        return [slot for slot in self.claimed_by(handler) if self._began(current, slot)]

    def _current(self, handler: int) -> int:
        index = self.table.geometry.readers + handler
        return self.table.q[self._process0 + index * (PROCESS.itemsize // WORD) + W_CURRENT]

    def _began(self, current: int, slot: int) -> bool:
        q, own = self.table.q, self.table.slot0 + slot * SLOT_WORDS
        alone = current == q[own] >> states.GENERATION_SHIFT << 32 | slot + 1
        return alone or began_with(q, own, current)

    def _settle_budget(self, current: int, slot: int, now_ns: int, together: int) -> None:
        """What it was charged stays; what it has used more than that is added.

        It ran with others, `together` in all: its part of the time.
        """
        q, own = self.table.q, self.table.slot0 + slot * SLOT_WORDS
        if not q[own + W_BUDGET] or not q[own + W_LIMITERS]:
            return
        generation, word = q[own] >> states.GENERATION_SHIFT, q[own + W_ANSWER]
        us = answer = 0
        if is_complete(word, generation):
            us, answer = q[own + W_SPENT] // 1000, word >> 8 & 0xFFFF_FFFF
        elif self._began(current, slot):
            us = max(0, now_ns - q[own + W_CLAIMED]) // 1000 // together
        with self.table.queue_lock:
            self.table.settling.settle_dead(own, us, answer, now_ns)

    def _settle(self, current: int, reader: int, slot: int) -> str:
        table, q = self.table, self.table.q
        own = table.slot0 + slot * SLOT_WORDS
        word = q[own]
        state, generation = word & states.STATE_MASK, word >> states.GENERATION_SHIFT
        if is_complete(q[own + W_ANSWER], generation):
            table.answer_locked(reader, slot)
            return "answered"
        attempts = word >> states.ATTEMPT_SHIFT & states.ATTEMPT_MASK
        began = self._began(current, slot)
        again = q[own + W_CALL] >> states.FLAGS_SHIFT & states.IDEMPOTENT
        if state == RUNNING and not (began and not (again and attempts + 1 < states.MAX_ATTEMPTS)):
            return "requeued"
        q[own + W_ANSWER] = states.answer_word(states.Status.DIED, 0, generation)
        table.answer_locked(reader, slot)
        return "died"

    def _requeue(self, slots: list[int], current: int) -> None:
        """RUNNING -> QUEUED; the rebuild gives each its old place (their answer lock held)."""
        if not slots:
            return
        q, kept = self.table.q, states.GENERATIONS | states.LEVEL_MASK << states.LEVEL_SHIFT
        nobody = states.NOBODYS
        with self.table.queue_lock:
            for slot in slots:
                own = self.table.slot0 + slot * SLOT_WORDS
                word = q[own]
                attempts = word >> states.ATTEMPT_SHIFT & states.ATTEMPT_MASK
                attempts += self._began(current, slot)
                if q[own + W_LIMITERS]:
                    look_closer(q, own)
                    q[own + W_BUDGET] = AGAIN
                q[own] = word & kept | QUEUED | nobody | attempts << states.ATTEMPT_SHIFT
            self.rebuild_queue()

    def reap_reader(self, reader: int) -> Counter[str]:
        """The connections of the dead `reader` died with it: nobody waits for its calls.

        What did not begin is dropped, what runs is given up; every other slot is FREE, two
        generations on, so that its payload pages are free too. Returns the states found.
        """
        table, q = self.table, self.table.q
        self.touch_locks()
        found: Counter[str] = Counter()
        first = reader * table.slots_per_reader
        with table.answer_locks[reader], table.queue_lock:
            for slot in range(first, first + table.slots_per_reader):
                own = table.slot0 + slot * SLOT_WORDS
                state = q[own] & states.STATE_MASK
                found[states.STATES[state]] += 1
                if state == RUNNING:
                    q[own] = q[own] & ~states.STATE_MASK | ABANDONED
                elif state != ABANDONED:
                    table.release(slot, step=2)
                    clear(q, own)
            self.rebuild_queue()
            self.rebuild_answers(reader)
        with table.pages.lock:
            table.pages.rebuild()
        return found

    def audit(self) -> list[str]:
        """Every invariant that `audit` states; [] when sound."""
        return audit(self.table)

    # -- reading the words -----------------------------------------------------------------------

    def count_states(self) -> Counter[str]:
        """How many slots are in each state."""
        counts = np.bincount((self._words[:, 0] & np.uint64(states.STATE_MASK)).astype(np.intp))
        return Counter({states.STATES[i]: int(n) for i, n in enumerate(counts) if n})

    def slots_in(self, state: int) -> Slots:
        words = self._words[:, 0] & np.uint64(states.STATE_MASK)
        return np.flatnonzero(words == np.uint64(state))

    def claimed(self) -> Slots:
        """The slots that some handler has claimed and not answered."""
        return np.concatenate((self.slots_in(RUNNING), self.slots_in(ABANDONED)))

    def slots_of(self, reader: int, state: int) -> list[int]:
        first = reader * self.table.slots_per_reader
        words = self._words[first : first + self.table.slots_per_reader, 0]
        found = np.flatnonzero(words & np.uint64(states.STATE_MASK) == np.uint64(state))
        return [first + int(slot) for slot in found]

    def _levels(self, slots: Slots) -> Slots:
        return self.table.rings.levels_of(slots)


def is_complete(answer: int, generation: int) -> bool:
    """Whether an answer word was stored for the call of this generation."""
    return bool(answer & 0xFF) and answer >> 40 == generation & 0xFF_FFFF
