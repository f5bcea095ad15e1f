"""The call table: what readers and handlers do with calls, as batch operations on integers.

| operation | by      | under              | what it does                                        |
| enqueue   | reader  | queue lock         | staged slots become QUEUED, or are refused          |
| claim     | handler | queue lock         | the next calls, by WRR and in turn, become RUNNING  |
| settle    | handler | queue lock         | what ended calls used replaces what was reserved    |
| publish   | handler | reader's answer l. | answered calls become DONE and join the answer ring |
| collect   | reader  | its answer lock    | DONE calls become TAKEN and are the reader's again  |
| withdraw  | reader  | answer, then queue | calls that nobody waits for any more are given up   |
| release   | reader  | none               | TAKEN slots become FREE, of the next generation     |

Rebuilding, reaping and auditing are in `recovery`. The rules of crash safety: the slot's state word
is the truth and changes by one store; a word that a state relies on is stored before the state, an
index after it; so a process may be killed at any instruction, and the next owner of the lock
derives the index anew. Time comes in as `now_ns` (monotonic).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from . import states
from .budgets import Budgets
from .draws import Draws
from .heaps import W_CHILD
from .held import W_HELD_BY, W_LIMITERS, W_SINCE, HeldCalls
from .layout import (
    ANSWER_RING,
    CLASSES,
    IDENTITY,
    LANES,
    LOCKS_BEFORE_ANSWERS,
    MAX_LEVELS,
    SHARD,
    SLOT,
    WORD,
    word_of,
)
from .limiters import Limiters
from .mutex import RobustMutex
from .openings import Openings
from .pages import PagePool
from .policy import PolicyBlocks, QueuePolicy
from .policy_change import PolicyChange
from .recovery import Recovery
from .rings import SLOT_WORDS, W_CALL, W_SEQ, W_TURN, TurnRings
from .segment import Segment
from .states import ABANDONED, DONE, FREE, HELD, QUEUED, RUNNING, TAKEN

W_PRINCIPAL, W_CLAIMED, W_RESERVED = (
    word_of(SLOT, name) for name in ("principal", "claimed_ns", "reserved")
)
QUEUE_LOCK = 0
IDENTITY_WORDS = IDENTITY.itemsize // WORD
LANE_PART = 4  # of a lane, that one principal may have

# Verdicts of `enqueue`, one per call.
ACCEPTED, LEVEL_FULL, PRINCIPAL_FULL, THROTTLED = range(4)
# Outcomes of `withdraw`: it is FREE again; the handler's answer will be dropped; too late.
WITHDRAWN, GIVEN_UP, ANSWERED = range(3)


class CallTable:
    """One process's view of the table. `q` and the word indices are read by `recovery` too."""

    def __init__(self, segment: Segment) -> None:
        g, layout = segment.geometry, segment.layout
        self.segment, self.geometry, self.q = segment, g, segment.q
        self.slots_per_reader = g.slots
        self.idle_words = -(-g.handlers // 64)
        self.words = segment.words(layout.slots, g.calls * SLOT_WORDS).reshape(-1, SLOT_WORDS)
        self.slot0 = layout.slots // WORD
        self.waiting0 = layout.identities // WORD + word_of(IDENTITY, "waiting")
        self.last_turn0 = layout.last_turns // WORD
        self.answers0 = layout.answers // WORD
        self.answer_stride = ANSWER_RING.itemsize // WORD + g.slots
        self._shard_words()
        self.rings = TurnRings(segment, self.words)
        self.draws = Draws(segment, self.rings, self.slot0, SLOT_WORDS)
        self.limiters = Limiters(segment)
        self.held = HeldCalls(segment, self.words, self.limiters)
        self.budgets = Budgets(segment, self.words, self.limiters, self.held)
        self.wake = 0  # handlers that the last claim wants to be woken
        self.blocks = PolicyBlocks(segment)
        self.pages = PagePool(segment)
        self.change = PolicyChange(self)
        self.policy, self.policy_version = QueuePolicy(), -1
        self.openings = Openings(self)
        self.recovery = Recovery(self)
        self.queue_lock = segment.lock_at(QUEUE_LOCK, "queue", self.recovery.rebuild_queue)
        self.answer_locks = [self._answer_lock(reader) for reader in range(g.readers)]

    def _answer_lock(self, reader: int) -> RobustMutex:
        rebuild = functools.partial(self.recovery.rebuild_answers, reader)
        number = LOCKS_BEFORE_ANSWERS + reader
        return self.segment.lock_at(number, f"answers-{reader}", rebuild)

    def _shard_words(self) -> None:
        names = (
            "seq",
            "waiting",
            "overflowed",
            "idle",
            "arrival_turn",
        )
        shard = self.segment.layout.shard
        words = (self.segment.word(shard, SHARD, name) for name in names)
        (
            self.seq_word,
            self.waiting_word,
            self.overflowed_word,
            self.idle_word,
            self.arrival_turn_word,
        ) = words

    # -- at the start ----------------------------------------------------------------------------

    def initialise(self, policy: QueuePolicy) -> None:
        """Make an empty table of a new segment; once, by the segment's creator."""
        for slot in range(self.geometry.calls):
            self.q[self.slot0 + slot * SLOT_WORDS] = states.state_word(FREE, generation=1)
        self._check_levels(policy)
        with self.queue_lock:
            self.blocks.write(policy)
            self.recovery.rebuild_queue()

    def set_policy(self, policy: QueuePolicy) -> bool:
        """Put `policy` in force between two operations; whether it was another (`policy_change`).

        May be repeated, and must be after a death in it. Calls of levels that go join the lowest,
        a batch at a time: until the return some may still wait on theirs.
        """
        self._check_levels(policy)
        return self.change.put_in_force(policy)

    def _check_levels(self, policy: QueuePolicy) -> None:
        if policy.levels > self.geometry.levels:
            raise ValueError(f"levels={policy.levels}, this segment has {self.geometry.levels}")

    def follow_policy(self) -> QueuePolicy:
        """The policy in force, looked up: for who needs it before its first operation."""
        with self.queue_lock:
            return self.load_policy()

    def load_policy(self) -> QueuePolicy:
        """The policy in force (queue lock held)."""
        version = self.q[self.blocks.version_word]
        if version != self.policy_version:
            self.policy = self.blocks.read(version)
            self.policy_version = version
        return self.policy

    def is_lane(self, level: int) -> bool:
        """Whether it is no level but a lane beside them."""
        return 0 <= level - self.geometry.levels < LANES

    def counts_as(self, level: int) -> int:
        """`level`, or 0 of a lane: what it is to everybody but the queue."""
        return 0 if self.is_lane(level) else level

    # -- readers ---------------------------------------------------------------------------------

    def enqueue(self, calls: Sequence[tuple[int, int]], verdicts: list[int]) -> int:
        """Offer staged `calls`, (slot, level) each; `verdicts[i]` says what became of the i-th.

        A level that is full passes the call on to the next lower one. Returns the handlers to wake,
        as a bitmap of indices. The slots' other words were stored before.
        """
        q = self.q
        with self.queue_lock:
            policy = self.load_policy()
            accepted = expected_ns = 0
            for index, (slot, level) in enumerate(calls):
                own = self.slot0 + slot * SLOT_WORDS
                verdict, level = self._admit(policy, own, level)
                verdicts[index] = verdict
                if verdict == ACCEPTED:
                    self._queue(policy, own, slot, level)
                    accepted += 1
                    expected_ns += q[own + W_RESERVED] or policy.claim_ahead_ns
            return self._idle_to_wake(accepted, expected_ns) if accepted else 0

    def _admit(self, policy: QueuePolicy, own: int, level: int) -> tuple[int, int]:
        """(verdict, level where there is room) of one call: by its limiters, by count and by its
        principal's."""
        q = self.q
        if q[own + W_LIMITERS]:
            q[own + W_HELD_BY] = 0
            if self.budgets.refuses(own):
                return THROTTLED, level
        row = q[own + W_PRINCIPAL] & 0xFFFF_FFFF
        if self.is_lane(level):
            if policy.lane_shares[level - self.geometry.levels]:
                return self._admit_to_lane(policy, row, level), level
            level = 0
        if q[self.waiting0 + row * IDENTITY_WORDS] >= policy.max_principal:
            return PRINCIPAL_FULL, level
        levels = policy.levels
        for at in range(min(level, levels - 1), levels):
            if self._has_room(at, policy.capacities[at]):
                return ACCEPTED, at
            q[self.overflowed_word + at] += 1
        return LEVEL_FULL, level

    def _admit_to_lane(self, policy: QueuePolicy, row: int, level: int) -> int:
        """A full lane refuses: it takes no draws of the levels.

        What a principal has waiting in the levels does not keep it out. How much it has in the
        lane is told by its turns: at most LANE_PART of the lane.
        """
        q, capacity = self.q, policy.capacities[0]
        last = self.last_turn0 + row * MAX_LEVELS + level
        ahead = q[last] + 1 - q[self.rings.turn_word + level] if policy.in_turn else 0
        if ahead > max(1, capacity // LANE_PART):
            return PRINCIPAL_FULL
        return ACCEPTED if self._has_room(level, capacity) else LEVEL_FULL

    def _has_room(self, level: int, capacity: int) -> bool:
        q, both = self.q, self.rings.waiting_word + level * CLASSES
        return q[both] + q[both + 1] + q[self.held.level_held_word + level] < capacity

    def _queue(self, policy: QueuePolicy, own: int, slot: int, level: int) -> None:
        q = self.q
        principal = q[own + W_PRINCIPAL] & 0xFFFF_FFFF
        turn = q[self.rings.turn_word + level]
        if policy.in_turn:
            last = self.last_turn0 + principal * MAX_LEVELS + level
            turn = min(max(turn, q[last] + 1), turn + self.rings.turns - 1)
            q[last] = turn
        else:
            turn = max(turn, q[self.arrival_turn_word + level])
        seq = q[self.seq_word]
        q[own + W_SEQ], q[own + W_TURN] = seq, turn
        q[self.seq_word] = seq + 1
        q[own] = (
            QUEUED
            | level << states.LEVEL_SHIFT
            | states.NOBODY << states.OWNER_SHIFT
            | q[own] & states.GENERATIONS
        )  # <- accepted here
        self.rings.append(level, q[own + W_CALL] >> states.CLASS_SHIFT & 1, turn, slot)
        q[self.waiting_word] += 1
        q[self.waiting0 + principal * IDENTITY_WORDS] += 1

    def has_answers(self, reader: int) -> bool:
        """Whether `collect` would find something: a look without the lock."""
        ring = self.answers0 + reader * self.answer_stride
        return bool(self.q[ring] != self.q[ring + 1])

    def collect(self, reader: int, out: list[int]) -> int:
        """Take answered calls of `reader` into `out` (as many as it is long); returns how many."""
        q, taken = self.q, 0
        ring = self.answers0 + reader * self.answer_stride
        entries, mask = ring + self.answer_stride - self.slots_per_reader, self.slots_per_reader - 1
        with self.answer_locks[reader]:
            head = q[ring]
            stop = min(q[ring + 1], head + len(out))
            while head < stop:
                slot = q[entries + (head & mask)]
                own = self.slot0 + slot * SLOT_WORDS
                q[own] = q[own] & ~states.STATE_MASK | TAKEN  # <- no rebuild can give it again
                out[taken] = slot
                taken += 1
                head += 1
            q[ring] = head
        return taken

    def withdraw(self, reader: int, slots: Sequence[int], outcomes: list[int]) -> None:
        """Give up calls of `reader` (expired, cancelled, disconnected); an outcome for each.

        WITHDRAWN: it never began, and the slot is FREE. GIVEN_UP: it runs; its answer is dropped,
        and the slot comes back through `collect`. ANSWERED: too late, its answer is in the ring.
        """
        with self.answer_locks[reader], self.queue_lock:
            for index, slot in enumerate(slots):
                outcomes[index] = self.withdraw_locked(slot)

    def withdraw_locked(self, slot: int) -> int:
        """`withdraw` of one slot, with its reader's answer lock and the queue lock held."""
        q, own = self.q, self.slot0 + slot * SLOT_WORDS
        word = q[own]
        state = word & states.STATE_MASK
        if state in (QUEUED, HELD):
            self._unlink(slot, own, word)
            self.release(slot)
            return WITHDRAWN
        if state in (RUNNING, ABANDONED):
            q[own] = word & ~states.STATE_MASK | ABANDONED  # <- given up here
            return GIVEN_UP
        return ANSWERED

    def release(self, slot: int, step: int = 1) -> None:
        """A slot of this reader becomes FREE: nothing that names its old generation names it."""
        own = self.slot0 + slot * SLOT_WORDS
        generation = (self.q[own] >> states.GENERATION_SHIFT) + step & 0xFFFF_FFFF
        self.q[own] = states.NOBODY << states.OWNER_SHIFT | generation << states.GENERATION_SHIFT

    # -- handlers --------------------------------------------------------------------------------

    def claim(self, handler: int, now_ns: int, out: list[int], tokens: list[int]) -> int:
        """Claim the next calls for `handler` into `out` (slots) and `tokens` (their state words).

        More than one only while no handler is idle and the expected time stays within claim-ahead.
        0: nothing waits, and the handler's idle bit is set, so that the next call rings its bell.
        `wake` are handlers to be rung for calls that a limiter let go, or for a new opening.
        """
        q, count, ahead_ns, self.wake = self.q, 0, 0, 0
        idle, own_bit = self.idle_word + (handler >> 6), 1 << (handler & 63)
        with self.queue_lock:
            policy = self.load_policy()
            q[idle] &= ~own_bit
            opens = q[self.held.next_open_word]
            if opens and opens <= now_ns:
                self._open(policy, now_ns)
            while count < len(out):
                slot = self._draw(policy, now_ns)
                if slot < 0:
                    if self._opens_more(policy, now_ns):
                        continue
                    break
                own = self.slot0 + slot * SLOT_WORDS
                tokens[count] = self._claim(slot, own, handler, now_ns)
                out[count] = slot
                count += 1
                ahead_ns += q[own + W_RESERVED] or policy.claim_ahead_ns
                if ahead_ns >= policy.claim_ahead_ns or self.some_handler_idles:
                    break
            if not count:
                q[idle] |= own_bit
            elif (later := q[self.held.next_open_word]) and later != opens:
                self.wake |= self._idle_to_wake(1, 0)  # to sleep until then
        return count

    def _opens_more(self, policy: QueuePolicy, now_ns: int) -> bool:
        """Whether limiters let calls go now, those that they let go before having been drawn."""
        return 0 < self.q[self.held.next_open_word] <= now_ns and self._open(policy, now_ns) > 0

    def _draw(self, policy: QueuePolicy, now_ns: int) -> int:
        """The slot that the multiplexer serves next; -1 if nothing that waits may run now.

        What a limiter holds up on the way is no draw: its level still has its weight.
        """
        q = self.q
        while q[self.waiting_word]:
            slot = self.draws.next(policy)
            if slot < 0:
                break
            own = self.slot0 + slot * SLOT_WORDS
            if q[own + W_LIMITERS]:
                row = self.budgets.blocker(own, now_ns)
                if row >= 0:
                    self._hold(slot, row, now_ns)
                    continue
                paid = self.budgets.charge(own, now_ns)
                if q[own + W_HELD_BY]:
                    self.held.drawn(own)
                if paid:
                    self.openings.let_paid_go(policy, paid, now_ns)
                    self.wake |= self._idle_to_wake(len(paid), len(paid) * policy.claim_ahead_ns)
            self.draws.drawn(policy, slot)
            return slot
        return -1

    def _claim(self, slot: int, own: int, handler: int, now_ns: int) -> int:
        q, word = self.q, self.q[own]
        q[own + W_CLAIMED] = now_ns
        token = word & ~(states.STATE_MASK | states.OWNER_MASK << states.OWNER_SHIFT)
        token |= RUNNING | handler << states.OWNER_SHIFT
        q[own] = token  # <- claimed here
        level = word >> states.LEVEL_SHIFT & states.LEVEL_MASK
        self.rings.unlink(level, q[own + W_CALL] >> states.CLASS_SHIFT & 1, slot)
        q[self.waiting_word] -= 1
        q[self.waiting0 + (q[own + W_PRINCIPAL] & 0xFFFF_FFFF) * IDENTITY_WORDS] -= 1
        return token

    def publish(self, reader: int, slots: Sequence[int], tokens: Sequence[int], count: int) -> None:
        """The first `count` of `slots`, whose answer words are stored, are answered.

        A call that was given up meanwhile goes the same way; its reader drops the answer.
        """
        q = self.q
        with self.answer_locks[reader]:
            for index in range(count):
                word = q[self.slot0 + slots[index] * SLOT_WORDS]
                token = tokens[index]
                if word in (token, token & ~states.STATE_MASK | ABANDONED):
                    self.answer_locked(reader, slots[index])

    def answer_locked(self, reader: int, slot: int) -> None:
        """`slot` becomes DONE and joins the ring of `reader` (its answer lock held)."""
        q, own = self.q, self.slot0 + slot * SLOT_WORDS
        ring = self.answers0 + reader * self.answer_stride
        q[own] = q[own] & ~states.STATE_MASK | DONE  # <- answered here
        tail = q[ring + 1]
        entries = ring + self.answer_stride - self.slots_per_reader
        q[entries + (tail & (self.slots_per_reader - 1))] = slot
        q[ring + 1] = tail + 1

    def settle(
        self, slots: Sequence[int], used: Sequence[tuple[int, int, bool]], now_ns: int
    ) -> None:
        """Calls of this handler ended: (microseconds, answer bytes, whether it ran) of each.

        Before they are published. For slots whose `budget` is RESERVED; others are left alone.
        """
        with self.queue_lock:
            for slot, (us, answer, ran) in zip(slots, used, strict=True):
                own = self.slot0 + slot * SLOT_WORDS
                self.budgets.settle(own, us, answer, now_ns, ran=ran)

    # -- with the queue lock held ----------------------------------------------------------------

    def _hold(self, slot: int, row: int, now_ns: int) -> None:
        q, own = self.q, self.slot0 + slot * SLOT_WORDS
        word = q[own]
        level = word >> states.LEVEL_SHIFT & states.LEVEL_MASK
        self.rings.unlink(level, q[own + W_CALL] >> states.CLASS_SHIFT & 1, slot)
        q[self.waiting_word] -= 1
        if q[own + W_HELD_BY]:
            self.held.drawn(own)
            q[own + W_TURN] = q[own + W_CHILD]  # it stays before its caller's later ones
        q[own + W_HELD_BY], q[own + W_SINCE] = row + 1, now_ns
        q[own] = word & ~states.STATE_MASK | HELD  # <- held here
        self.held.append(row, slot, level)

    def _open(self, policy: QueuePolicy, now_ns: int) -> int:
        """Calls whose limiter has opened wait again; how many. Handlers are woken for them."""
        count = self.openings.let_go(policy, now_ns)
        if count > 1:
            self.wake |= self._idle_to_wake(count - 1, count * policy.claim_ahead_ns)
        return count

    def _unlink(self, slot: int, own: int, word: int) -> None:
        q = self.q
        level = word >> states.LEVEL_SHIFT & states.LEVEL_MASK
        if word & states.STATE_MASK == HELD:
            self.held.unlink(slot, level)
        else:
            self.rings.unlink(level, q[own + W_CALL] >> states.CLASS_SHIFT & 1, slot)
            q[self.waiting_word] -= 1
            if q[own + W_LIMITERS] and q[own + W_HELD_BY]:
                self.held.drawn(own)
        q[self.waiting0 + (q[own + W_PRINCIPAL] & 0xFFFF_FFFF) * IDENTITY_WORDS] -= 1

    @property
    def some_handler_idles(self) -> bool:
        """Whether a handler waits for calls; certain only with the queue lock held."""
        return any(self.q[self.idle_word : self.idle_word + self.idle_words])

    def _idle_to_wake(self, accepted: int, expected_ns: int) -> int:
        """Clear the idle bits of the handlers that these calls need, and return them."""
        q = self.q
        ahead_ns = self.policy.claim_ahead_ns
        wanted = min(accepted, max(1, -(-expected_ns // ahead_ns))) if ahead_ns else accepted
        wake = 0
        for index in range(self.idle_words):
            bits = q[self.idle_word + index]
            while bits and wanted:
                bit = bits & -bits
                bits ^= bit
                wake |= bit << (index * 64)
                wanted -= 1
            q[self.idle_word + index] = bits
            if not wanted:
                break
        return wake
