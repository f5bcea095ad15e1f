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
from .heaps import W_CHILD
from .layout import MAX_LEVELS, SLOT, word_of
from .policy import QueuePolicy
from .rings import SLOT_WORDS, W_CALL, W_SEQ, W_TURN
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
            for level in range(policy.levels, table.geometry.levels):
                while moved < self.batch and (slot := table.rings.first_of_level(level)) >= 0:
                    self._move(policy, slot, level)
                    moved += 1
            if moved < self.batch:
                moved += self._move_held(policy.levels - 1, self.batch - moved)
        return moved

    def _move(self, policy: QueuePolicy, slot: int, level: int) -> None:
        """One call that waits arrives at the lowest level."""
        table, q, lowest = self._table, self._table.q, policy.levels - 1
        own = table.slot0 + slot * SLOT_WORDS
        cls = q[own + W_CALL] >> states.CLASS_SHIFT & 1
        table.rings.unlink(level, cls, slot)
        turn, seq = self._turn(policy, own, lowest), q[table.seq_word]
        q[own + W_SEQ], q[own + W_TURN], q[own + W_CHILD] = seq, turn, turn
        q[table.seq_word] = seq + 1
        q[own] = q[own] & ~_LEVEL | lowest << states.LEVEL_SHIFT  # <- moved here
        table.rings.append(lowest, cls, turn, slot)

    def _turn(self, policy: QueuePolicy, own: int, level: int) -> int:
        """That of a call which arrives now, as in `CallTable._queue`."""
        table, q = self._table, self._table.q
        turn = q[table.rings.turn_word + level]
        if not policy.in_turn:
            return max(turn, q[table.arrival_turn_word + level])
        last = table.last_turn0 + (q[own + W_PRINCIPAL] & 0xFFFF_FFFF) * MAX_LEVELS + level
        turn = min(max(turn, q[last] + 1), turn + table.rings.turns - 1)
        q[last] = turn
        return turn

    def _move_held(self, lowest: int, most: int) -> int:
        """Calls that limiters hold stay held; they will open on the lowest level."""
        table, q = self._table, self._table.q
        counts = table.held.level_held_word
        if not any(q[counts + lowest + 1 : counts + table.geometry.levels]):
            return 0
        held = table.recovery.slots_in(HELD)
        levels = table.rings.levels_of(held)
        slots = held[(levels > lowest) & (levels < table.geometry.levels)][:most].tolist()
        for slot in slots:
            own = table.slot0 + slot * SLOT_WORDS
            level = q[own] >> states.LEVEL_SHIFT & states.LEVEL_MASK
            table.held.move(slot, level, lowest, q[table.rings.turn_word + lowest])
            q[own] = q[own] & ~_LEVEL | lowest << states.LEVEL_SHIFT  # <- moved here
        return len(slots)
