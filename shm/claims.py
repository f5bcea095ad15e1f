"""Handlers claim calls: what the multiplexer draws becomes RUNNING, if its limiters let it.

What a limiter blocks is HELD instead, or, where there is no room for that, turned away. What its
calls used, the handler settles here, too. Everything here runs with the queue lock held, which
`claim`, `leave` and `settle` take.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import states
from .budgets import COUNTED, PAID, W_CLAIMED
from .heaps import W_CHILD
from .held import FIRST, W_SINCE
from .offers import IDENTITY_WORDS, W_PRINCIPAL, W_RESERVED
from .policy import QueuePolicy
from .rings import SLOT_WORDS, W_CALL, W_TURN
from .seats import Seats
from .slot_limiters import W_BUDGET, W_HELD_BY, W_LIMITERS, look_closer
from .states import CLASS_SHIFT, HELD, LEVEL_MASK, LEVEL_SHIFT, OWNER_SHIFT, RUNNING
from .terms import REFUSED

if TYPE_CHECKING:
    from .table import CallTable

HOLD_AT_ONCE = 64  # calls that one section of a claim holds, or lets go
PAUSE_S = 0.0001  # before the next section: time for whoever waits for the lock
_NO_STATE_NOR_OWNER = ~(states.STATE_MASK | states.OWNER_MASK << OWNER_SHIFT)


class Claims:
    """Works on the table that it is given, whose queue lock exists."""

    def __init__(self, table: CallTable) -> None:
        self._table, self._q, self._slot0 = table, table.q, table.slot0
        self._waiting0, self.waiting_word = table.waiting0, table.waiting_word
        self._idle_word = table.idle_word
        self._held, self._rings, self._unlink = table.held, table.rings, table.rings.unlink
        self._budgets, self._openings, self._joint = table.budgets, table.openings, table.joint
        self._plain = table.plain_charges
        self._blockers, self._settling = table.blockers, table.settling
        self._backlogs = table.backlogs
        self.queue_lock, self._load_policy = table.queue_lock, table.load_policy
        self._idle_to_wake, self._some_idles = table.idle_to_wake, table.some_idles
        self._groups, self._group_waiting0 = range(table.geometry.groups), table.group_waiting0
        self._holds_too_many = table.offers.holds_too_many
        self._seats = Seats(table)
        self.wake = 0  # handlers that the last claim wants to be woken
        # (slot, state word) of calls that a claim found no room to hold, for its handler to answer.
        self.turned_away: list[tuple[int, int]] = []
        self.hold_at_once = HOLD_AT_ONCE
        self.looked_at = 0  # calls that the present section has held or turned away
        self.serve(0)

    def serve(self, handler: int) -> None:
        """From now on this process claims for `handler`: calls of its group."""
        table = self._table
        self._handler, self._group = handler, table.geometry.group_of(handler)
        self._express, self._is_express = table.express[self._group], False
        draws = table.group_draws[self._group]
        if self._express and table.geometry.is_express(handler):
            self._is_express, draws = True, self._express.draws
        self._draws, self.waits = draws, draws.waits
        self._next_slot, self.waiting_word = draws.next, draws.waiting_word
        self._joint.follow(draws)
        self._seats.follow(handler, draws)

    def claim(self, handler: int, now_ns: int, out: list[int], tokens: list[int]) -> int:
        """Claim the next calls for `handler` into `out` (slots) and `tokens` (their state words).

        More than one only while no handler is idle and the expected time stays within claim-ahead.
        0: nothing waits, and the handler's idle bit is set, so that the next call rings its bell.
        `wake` are handlers to be rung for calls that a limiter let go, or for a new opening. What
        a limiter blocks and finds no room to wait is in `turned_away`, claimed, uncharged, and not
        to be run. However many calls are held or let go, the lock is free every `hold_at_once`.
        What is to be run together comes in `joint`, beside these, and ends the claim.
        """
        self.wake = 0
        if handler != self._handler:
            self.serve(handler)
        while not (count := self._claim_some(handler, now_ns, out, tokens)):
            if self.turned_away or self._joint.slots or self._is_through:
                break
            time.sleep(PAUSE_S)
        while self._openings.unfinished:
            time.sleep(PAUSE_S)
            with self.queue_lock:
                self._open(self._load_policy(), now_ns)
        return count

    def _claim_some(self, handler: int, now_ns: int, out: list[int], tokens: list[int]) -> int:
        """One section of a claim."""
        q, count, ahead_ns, self.looked_at = self._q, 0, 0, 0
        idle, own_bit = self._idle_word + (handler >> 6), 1 << (handler & 63)
        joint = self._joint
        if joint.slots:
            joint.clear()
        with self.queue_lock:
            policy = self._load_policy()
            now_ns = self._plain.begin(now_ns)
            q[idle] &= ~own_bit
            if self._express:
                self._express.returns(handler)
            if policy.long_ns:
                self._seats.leave()
            opens = q[self._held.next_open_word]
            if self._openings.unfinished or (opens and opens <= now_ns):
                self._open(policy, now_ns)
            most = 1 if self._some_idles(self._group) else len(out)
            while count < most:
                slot = self._draw(policy, handler, now_ns)
                if slot < 0:
                    if self._opens_more(policy, now_ns):
                        continue
                    break
                own = self._slot0 + slot * SLOT_WORDS
                token = self.take(slot, own, handler, now_ns)
                if joint.methods and joint.method_at(own) in joint.methods:
                    joint.start(policy, handler, slot, token, now_ns)
                    break
                tokens[count] = token
                out[count] = slot
                count += 1
                ahead_ns += q[own + W_RESERVED] or policy.claim_ahead_ns
                if ahead_ns >= policy.claim_ahead_ns:
                    break
            if policy.long_ns and (count or joint.slots):
                self._seats.take(policy, own, count, now_ns)
            if self._express and (count or joint.slots):
                is_long = q[own + W_CALL] >> CLASS_SHIFT & 1  # the one that was claimed last
                self.wake |= self._express.claimed(handler, now_ns, is_long=bool(is_long))
            if not count and not joint.slots:
                if not self._is_through:
                    return 0
                q[idle] |= own_bit
            elif (later := q[self._held.next_open_word]) and later != opens:
                self.wake |= self._table.any_to_wake(self._group)  # to sleep until then
        return count

    @property
    def _is_through(self) -> bool:
        """Whether the present section has looked at all that waits and is due."""
        return not self.looked_enough and not self._openings.unfinished

    def leave(self, handler: int) -> int:
        """`handler` claims no more; who is to be rung instead for a call that it was rung for."""
        q, wake = self._q, 0
        idle, own_bit = self._idle_word + (handler >> 6), 1 << (handler & 63)
        self.serve(handler)
        with self.queue_lock:
            rung = not q[idle] & own_bit
            q[idle] &= ~own_bit
            if rung and q[self.waiting_word]:
                wake = self._idle_to_wake(1, 0, self._group)
            if self._express:
                wake |= self._express.leaves(handler)
        return wake

    def _opens_more(self, policy: QueuePolicy, now_ns: int) -> bool:
        """Whether limiters let calls go now, those that they let go before having been drawn."""
        if not self._is_through:
            return False
        return 0 < self._q[self._held.next_open_word] <= now_ns and self._open(policy, now_ns) > 0

    def _draw(self, policy: QueuePolicy, handler: int, now_ns: int) -> int:
        """The slot that the multiplexer serves next; -1 if nothing that waits may run now.

        What a limiter holds up on the way is no draw: its level still has its weight.
        """
        q = self._q
        while q[self.waiting_word]:
            slot, out_of_turn = self._next_slot(policy), False
            if slot < 0:
                break
            own = self._slot0 + slot * SLOT_WORDS
            if policy.long_ns and q[own + W_CALL] >> CLASS_SHIFT & 1:  # it may be a long one
                chosen = self._seats.choose(policy, slot, now_ns)
                if chosen < 0:
                    break
                out_of_turn, slot = chosen != slot, chosen
                own = self._slot0 + slot * SLOT_WORDS
            limiters = q[own + W_LIMITERS]
            if limiters and not self._plain.charge(own, limiters, now_ns):
                if self.looked_enough:
                    break
                if not self._passes(policy, slot, own, handler, now_ns):
                    continue
            self._draws.drawn(policy, slot, out_of_turn=out_of_turn)
            return slot
        return -1

    @property
    def looked_enough(self) -> bool:
        """Whether the present section has held or turned away all that it may."""
        return self.looked_at >= self.hold_at_once

    def lets_go(self, policy: QueuePolicy, slot: int, handler: int, now_ns: int) -> bool:
        """Whether a call may run now; what it is charged for that, it is charged."""
        own = self._slot0 + slot * SLOT_WORDS
        limiters = self._q[own + W_LIMITERS]
        if not limiters or self._plain.charge(own, limiters, now_ns):
            return True
        return self._passes(policy, slot, own, handler, now_ns)

    def _passes(self, policy: QueuePolicy, slot: int, own: int, handler: int, now_ns: int) -> bool:
        """Whether its limiters let the call run, which are charged then; if not, it is held, or
        there is no room for that and `handler` answers so."""
        q = self._q
        is_counted = q[own + W_BUDGET] >= COUNTED
        if is_counted and self._backlogs.lets_go(own):
            return True
        row = self._blockers.blocker(own, now_ns)
        if row >= 0:
            self.looked_at += 1
            if self._turns_away(policy, own):
                self._blockers.counts(row, REFUSED)
                if is_counted:
                    self._backlogs.unmark(own)
                self.turned_away.append((slot, self.take(slot, own, handler, now_ns)))
            else:
                self._hold(slot, row, now_ns)
                self._plain.begin(now_ns)
            return False
        paid = self._budgets.charge(own, now_ns)
        if is_counted:
            self._backlogs.leaves(own)
        if q[own + W_HELD_BY]:
            self._held.drawn(own)
        if paid:
            self._openings.let_paid_go(policy, paid, now_ns, self.hold_at_once)
            self._wake_for_opened(policy, 0)
        return True

    def _turns_away(self, policy: QueuePolicy, own: int) -> bool:
        """Whether there is no room to hold a call that comes for the first time."""
        level = self._q[own] >> LEVEL_SHIFT & LEVEL_MASK
        return self._holds_too_many(policy, own, level, 1) and self._blockers.is_new(own)

    def take(self, slot: int, own: int, handler: int, now_ns: int) -> int:
        q, word = self._q, self._q[own]
        q[own + W_CLAIMED] = now_ns
        token = word & _NO_STATE_NOR_OWNER | RUNNING | handler << OWNER_SHIFT
        q[own] = token  # <- claimed here
        level = word >> LEVEL_SHIFT & LEVEL_MASK
        self._unlink(level, q[own + W_CALL] >> CLASS_SHIFT & 1, slot)
        q[self.waiting_word] -= 1
        principal = q[own + W_PRINCIPAL] & 0xFFFF_FFFF
        q[self._waiting0 + principal * IDENTITY_WORDS] -= 1
        if self._group_waiting0:
            q[self._group_waiting0 + principal * len(self._groups) + self._group] -= 1
        return token

    def _hold(self, slot: int, row: int, now_ns: int) -> None:
        q, own = self._q, self._slot0 + slot * SLOT_WORDS
        word = q[own]
        level = word >> LEVEL_SHIFT & LEVEL_MASK
        cls = q[own + W_CALL] >> CLASS_SHIFT & 1
        self._unlink(level, cls, slot)
        q[self.waiting_word] -= 1
        if q[own + W_HELD_BY]:
            self._held.drawn(own)
            q[own + W_TURN] = q[own + W_CHILD]  # it stays before its caller's later ones
        elif self._rings.lead_word:
            q[own + W_TURN] -= self._rings.lead_of(level, cls)
        if q[own + W_BUDGET] & PAID:
            q[own + W_TURN] = FIRST
        look_closer(q, own)
        q[own + W_HELD_BY], q[own + W_SINCE] = row + 1, now_ns
        q[own] = word & ~states.STATE_MASK | HELD  # <- held here
        self._held.append(row, slot, level)

    def _open(self, policy: QueuePolicy, now_ns: int) -> int:
        """Calls whose limiter has opened wait again; how many. Handlers are woken for them."""
        count = self._openings.let_go(policy, now_ns, self.hold_at_once)
        self._wake_for_opened(policy, 1)
        return count

    def _wake_for_opened(self, policy: QueuePolicy, itself: int) -> None:
        """For the calls just let go, but for as many of its group as this one takes `itself`."""
        for group, count in enumerate(self._openings.opened):
            own = group == self._group and not self._is_express
            wanted = count - itself if own else count
            if wanted > 0:
                expected_ns = count * policy.claim_ahead_ns
                self.wake |= self._idle_to_wake(wanted, expected_ns, group)
                self.wake |= self._table.express_to_wake(group)

    def settle(
        self, slots: Sequence[int], used: Sequence[tuple[int, int, bool]], now_ns: int
    ) -> None:
        """Calls of this handler ended: (microseconds, answer bytes, whether it ran) of each.

        Before they are published. For slots whose `budget` is RESERVED; others are left alone.
        """
        with self.queue_lock:
            for slot, (us, answer, ran) in zip(slots, used, strict=True):
                own = self._slot0 + slot * SLOT_WORDS
                self._settling.settle(own, us, answer, now_ns, ran=ran)
