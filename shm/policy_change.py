"""Another policy takes the place of the one in force, while calls come, wait and are claimed.

Most of a policy is nothing but its block: one store of `policy_version` puts weights, capacities,
back-off and the rest in force, with the queue lock held for microseconds however many calls wait.
Two things concern calls that wait already:

    order of arrival   a call that waits in turn may have a turn that the level has yet to reach.
                       Who comes later must not go before it: `arrival_turn` of each level is the
                       latest turn in use, and later calls join that one.
    fewer levels       calls of levels that go are moved to the lowest one, BATCH of them with the
                       lock held, then BATCH more. They arrive there anew, each caller's in their
                       order. Until they are moved they are drawn where all other levels are empty.

Whoever is killed with the lock held has the index rebuilt by the next owner, which moves what is
left; whoever is killed between two batches is followed by another, which goes on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import states
from .budgets import PAID
from .heaps import W_CHILD
from .held import FIRST
from .layout import GROUP_SHIFT, SLOT, word_of
from .policy import QueuePolicy
from .rings import SLOT_WORDS, W_CALL, W_SEQ, W_TURN
from .slot_limiters import W_BUDGET, W_HELD_BY, W_LIMITERS
from .states import HELD

if TYPE_CHECKING:
    from .table import CallTable

BATCH = 96  # calls moved with the lock held once: less than half a millisecond
PAUSE_S = 0.001  # before the next: time for whoever waits for the lock, woken late as well
W_PRINCIPAL = word_of(SLOT, "principal")
_LEVEL = states.LEVEL_MASK << states.LEVEL_SHIFT


class PolicyChange:
    """Works on the table that it is given, and takes its queue lock."""

    def __init__(self, table: CallTable) -> None:
        self._table = table
        self.batch = BATCH

    def put_in_force(self, policy: QueuePolicy) -> bool:
        """Whether it was another; at the return nothing waits on a level that it does not have."""
        table = self._table
        with table.queue_lock:
            changed = table.load_policy() != policy
            if changed:
                if not policy.in_turn:
                    self._arrivals_behind_all()
                table.blocks.write(policy)
                table.recovery.clamp_cursor(policy.weights)
        while self._move_some():
            time.sleep(PAUSE_S)
        return changed

    def _arrivals_behind_all(self) -> None:
        table = self._table
        for level in range(table.geometry.rings):
            table.q[table.arrival_turn_word + level] = table.rings.latest_turn(level)

    def _move_some(self) -> int:
        """Some of the calls on levels that are no more join the lowest; how many."""
        table, moved = self._table, 0
        with table.queue_lock:
            policy = table.load_policy()
            for draws in table.group_draws:
                for level in range(draws.base + policy.levels, draws.lane0):
                    while moved < self.batch and (slot := table.rings.first_of_level(level)) >= 0:
                        self._move(policy, slot, level)
                        moved += 1
                if moved < self.batch:
                    lowest = draws.base + policy.levels - 1
                    moved += self._move_held(lowest, draws.lane0, self.batch - moved)
        return moved

    def _move(self, policy: QueuePolicy, slot: int, level: int) -> None:
        """One call that waits arrives at the lowest level of its group."""
        table, q = self._table, self._table.q
        lowest = (level >> GROUP_SHIFT << GROUP_SHIFT) + policy.levels - 1
        own = table.slot0 + slot * SLOT_WORDS
        cls = q[own + W_CALL] >> states.CLASS_SHIFT & 1
        # It is the first of its level: the next look for that begins here, and finds it at once.
        table.rings.reach(level, q[own + W_TURN] - table.rings.lead_of(level, cls))
        table.rings.unlink(level, cls, slot)
        turn, seq = self._turn(policy, own, lowest), q[table.seq_word]
        q[own + W_CHILD] = turn
        turn += table.rings.lead_of(lowest, cls)
        q[own + W_SEQ], q[own + W_TURN] = seq, turn
        q[table.seq_word] = seq + 1
        q[own] = q[own] & ~_LEVEL | lowest << states.LEVEL_SHIFT  # <- moved here
        table.rings.append(lowest, cls, turn, slot)
        if q[own + W_LIMITERS] and q[own + W_HELD_BY]:
            table.held.moved_opened(level, lowest)

    def _turn(self, policy: QueuePolicy, own: int, level: int) -> int:
        """That of a call which arrives now, as in `Offers`, by the level's count."""
        table, q = self._table, self._table.q
        if not policy.in_turn:
            turn = q[table.rings.turn_word + level]
            return max(turn, q[table.arrival_turn_word + level])
        cls = q[own + W_CALL] >> states.CLASS_SHIFT & 1
        return table.turns.after_last(q[own + W_PRINCIPAL] & 0xFFFF_FFFF, level, cls)

    def _move_held(self, lowest: int, lane0: int, most: int) -> int:
        """Calls that limiters hold on levels between stay held; they will open on the lowest."""
        table, q = self._table, self._table.q
        counts = table.held.level_held_word
        if not any(q[counts + lowest + 1 : counts + lane0]):
            return 0
        held = table.recovery.slots_in(HELD)
        levels = table.rings.levels_of(held)
        slots = held[(levels > lowest) & (levels < lane0)][:most].tolist()
        for slot in slots:
            own = table.slot0 + slot * SLOT_WORDS
            level = q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
            is_paid = q[own + W_BUDGET] & PAID
            turn = FIRST if is_paid else q[table.rings.turn_word + lowest]
            table.held.move(slot, level, lowest, turn)
            q[own] = q[own] & ~_LEVEL | lowest << states.LEVEL_SHIFT  # <- moved here
        return len(slots)
