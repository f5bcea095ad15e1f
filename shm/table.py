"""The call table: what readers and handlers do with calls, as batch operations on integers.

| operation | by      | under              | what it does                                        |
| enqueue   | reader  | queue lock         | staged slots become QUEUED (HELD with their key's), |
|           |         |                    | or are refused                                      |
| claim     | handler | queue lock         | the next calls, by WRR and in turn, become RUNNING  |
| settle    | handler | queue lock         | what ended calls used replaces what was reserved    |
| publish   | handler | reader's answer l. | answered calls become DONE and join the answer ring |
| collect   | reader  | its answer lock    | DONE calls become TAKEN and are the reader's again  |
| withdraw  | reader  | answer, then queue | calls that nobody waits for any more are given up   |
| release   | reader  | none               | TAKEN slots become FREE, of the next generation     |

Handlers may be of several *groups*, each with levels, lanes, cursor and counts of its own: a ring's
number is group << GROUP_SHIFT | level, and stands as the level in the state word. So one group's
full queue takes neither room nor draws from another's, under the one lock, with limits that span
all of them.

A reader's `enqueue` is in `offers`, what handlers do with the queue lock in `claims`, the end of a
call in `answers`; rebuilding, reaping and auditing in `recovery`. The rules of crash safety: the
slot's state word is the truth and changes by one store; a word that a state relies on is stored
before the state, an index after it; so a process may be killed at any instruction, and the next
owner of the lock derives the index anew. Time comes in as `now_ns` (monotonic).
"""

from __future__ import annotations

from . import states
from .answers import Answers
from .backlogs import Backlogs
from .blockers import Blockers
from .budgets import Budgets
from .claims import Claims
from .draws import Draws
from .express import Express
from .held import FIRST, HeldCalls
from .joint import JointClaims
from .layout import ANSWER_RING, GROUP_SHIFT, IDENTITY, LANES, SHARD, WORD, word_of
from .limiters import Limiters
from .offers import Offers
from .openings import Openings
from .pages import PagePool
from .plain_charges import PlainCharges
from .policy import PolicyBlocks, QueuePolicy
from .policy_change import PolicyChange
from .recovery import Recovery
from .rings import SLOT_WORDS, TurnRings
from .segment import Segment
from .settling import Settling
from .states import FREE
from .turns import Turns

QUEUE_LOCK = 0
IN_GROUP = (1 << GROUP_SHIFT) - 1  # of a ring's number: the level


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
        # [identity row][group]: calls QUEUED or HELD; 0: there is but one group
        self.group_waiting0 = layout.group_waiting // WORD if g.groups > 1 else 0
        self.answers0 = layout.answers // WORD
        self.answer_stride = ANSWER_RING.itemsize // WORD + g.slots
        self._shard_words()
        self.rings = TurnRings(segment, self.words)
        self.turns = Turns(self)
        self.group_draws = [
            Draws(segment, self.rings, self.slot0, SLOT_WORDS, group) for group in range(g.groups)
        ]
        self.draws = self.group_draws[0]
        self.waiting_words = [draws.waiting_word for draws in self.group_draws]
        self.waiting_word = self.waiting_words[0]
        groups = range(g.groups)
        self._members = [self.bits_of(g.ordinary_of(group)) for group in groups]
        # Of each group; None: it has no express handlers.
        self.express = [Express(self, group) if g.express_of(group) else None for group in groups]
        self.limiters = Limiters(segment)
        self.held = HeldCalls(segment, self.words, self.limiters)
        self.budgets = Budgets(segment, self.words, self.limiters, self.held)
        self.plain_charges = PlainCharges(segment, self.limiters, self.budgets.rows_of)
        self.backlogs = Backlogs(segment, self.words, self.limiters, self.held, self.budgets)
        self.blockers = Blockers(segment, self.limiters, self.budgets, self.backlogs)
        self.settling = Settling(segment, self.limiters, self.held, self.budgets)
        self.blocks = PolicyBlocks(segment)
        self.pages = PagePool(segment)
        self.change = PolicyChange(self)
        self.policy, self.policy_version = QueuePolicy(), -1
        self.openings = Openings(self)
        self.joint = JointClaims(self)
        self.recovery = Recovery(self)
        self.queue_lock = segment.lock_at(QUEUE_LOCK, "queue", self.recovery.rebuild_queue)
        self.offers = Offers(self)
        self.claims = Claims(self)
        self.answers = Answers(self)
        self._take_over()

    def _take_over(self) -> None:
        """The operations are called at the table, and cost no call more for that."""
        offers, claims, answers = self.offers, self.claims, self.answers
        self.enqueue = offers.enqueue
        self.claim, self.leave, self.settle = claims.claim, claims.leave, claims.settle
        self.turned_away = claims.turned_away
        self.publish, self.answer_locked = answers.publish, answers.answer_locked
        self.has_answers, self.collect = answers.has_answers, answers.collect
        self.withdraw, self.release = answers.withdraw, answers.release
        self.answer_locks = answers.locks

    def _shard_words(self) -> None:
        layout = self.segment.layout
        self.seq_word = self.segment.word(layout.shard, SHARD, "seq")
        self.idle_word = self.segment.word(layout.shard, SHARD, "idle")
        self.taken_word = self.segment.word(layout.shard, SHARD, "taken")
        self.overflowed_word = layout.overflowed // WORD
        self.arrival_turn_word = layout.arrival_turns // WORD

    def bits_of(self, handlers: range) -> tuple[int, ...]:
        """Their bits in each of the idle words."""
        bits = (1 << handlers.stop) - (1 << handlers.start)
        return tuple(bits >> (64 * word) & (1 << 64) - 1 for word in range(self.idle_words))

    # -- at the start ----------------------------------------------------------------------------

    def initialise(self, policy: QueuePolicy) -> None:
        """Make an empty table of a new segment; once, by the segment's creator."""
        for slot in range(self.geometry.calls):
            self.q[self.slot0 + slot * SLOT_WORDS] = states.state_word(FREE, generation=1)
        for level in range(self.geometry.ring_numbers):
            self.q[self.arrival_turn_word + level] = FIRST + 1
        for word, bits in enumerate(self.bits_of(range(self.geometry.handlers))):
            self.q[self.taken_word + word] = bits
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
        """Whether the ring of that number is no level but a lane beside them."""
        return 0 <= (level & IN_GROUP) - self.geometry.levels < LANES

    def counts_as(self, level: int) -> int:
        """The level of that ring in its group, or 0 of a lane: what it is to all but the queue."""
        level &= IN_GROUP
        return level if level < self.geometry.levels else 0

    def waiting(self) -> int:
        """Calls QUEUED, of all groups."""
        return sum(self.q[word] for word in self.waiting_words)

    # -- handlers that wait ----------------------------------------------------------------------

    @property
    def some_handler_idles(self) -> bool:
        """Whether an ordinary handler waits for calls; certain only with the queue lock held."""
        return any(map(self.some_idles, range(self.geometry.groups)))

    def some_idles(self, group: int) -> bool:
        """Whether an ordinary handler of `group` waits for calls (queue lock held)."""
        q, first, members = self.q, self.idle_word, self._members[group]
        if self.idle_words == 1:
            return q[first] & members[0] > 0
        return any(q[first + word] & bits for word, bits in enumerate(members))

    def any_to_wake(self, group: int) -> int:
        """Clear the idle bit of some handler, of `group` if one idles, and return it: any may look
        whose calls are due (queue lock held)."""
        for each in (group, *range(self.geometry.groups)):
            if wake := self.idle_to_wake(1, 0, each):
                return wake
        return next((bit for each in self.express if each and (bit := each.wake())), 0)

    def express_to_wake(self, group: int) -> int:
        """Clear the idle bit of the express handler that short calls of `group` need, and return
        it (queue lock held)."""
        express = self.express[group]
        return express.to_wake() if express else 0

    def express_are_busy(self, now_ns: int) -> bool:
        """Whether express handlers serve short calls beside long ones, now or lately."""
        return any(express.are_busy(now_ns) for express in self.express if express)

    def count_idle(self, group: int) -> int:
        """How many ordinary handlers of `group` wait for a call: as many calls wait for nothing."""
        idle = self.q[self.idle_word : self.idle_word + self.idle_words]
        members = self._members[group]
        return sum((bits & own).bit_count() for bits, own in zip(idle, members, strict=True))

    def idle_to_wake(self, accepted: int, expected_ns: int, group: int = 0) -> int:
        """Clear the idle bits of the ordinary handlers that these calls of `group` need, and
        return them."""
        q, members = self.q, self._members[group]
        ahead_ns = self.policy.claim_ahead_ns
        wanted = min(accepted, max(1, -(-expected_ns // ahead_ns))) if ahead_ns else accepted
        wake = 0
        for index in range(self.idle_words):
            bits = q[self.idle_word + index] & members[index]
            while bits and wanted:
                bit = bits & -bits
                bits ^= bit
                q[self.idle_word + index] ^= bit
                wake |= bit << (index * 64)
                wanted -= 1
            if not wanted:
                break
        return wake
