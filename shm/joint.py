"""Calls that one invocation serves together: claimed under one lock, of one method, in fair order.

A method that serves many calls at once has a number of them, `most`, and a time for which a handler
may wait until so many have come. When the multiplexer draws a call of such a method, further ones
join it in the order in which multiplexer and turns would have drawn them one by one:

    as long as the next draws are of that method, they are draws like all others;
    behind the first call of another method the draws are only played through, LOOKS calls of them:
    what joins from there takes no draw, so whoever was passed over keeps his place, and loses none.

AT_ONCE of them join, then the lock is free before more do. Each passes its limiters as ever. A call
whose handler died before runs alone: should it be what kills handlers, it takes no others with it.

**Begun**: before user code a handler stores the word that it is about to store as `current`, with
MEMBER, in each call's `next` (which means nothing outside a ring), and then `current`. One store
begins them all, and whoever reaps the handler sees which they are.

**Gathering**: `gathering` of a group of handlers names the method and the one handler that waits
for more calls of it. As many of its calls as that one has room for wake nobody else; it is rung
when there are enough, or when somebody else's call finds no handler idle. So a handler that waits
never keeps a call waiting that it could serve. Everything here but `mark` runs with the queue lock
held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from . import states
from .draws import Draws
from .layout import LANES
from .policy import QueuePolicy
from .rings import SLOT_WORDS, W_CALL, W_NEXT

if TYPE_CHECKING:
    from .table import CallTable

LOOKS = 128  # calls that are passed over or taken behind others: some 0.2 ms
AT_ONCE = 48  # calls that join with the lock held once: less than half a millisecond
MOST = 1024  # calls of one run
MEMBER = 1 << 31  # in `next`, beside the `current` of those it began with
_UNDECODED = states.UNDECODED << states.FLAGS_SHIFT
_ATTEMPTS = states.ATTEMPT_MASK << states.ATTEMPT_SHIFT
_METHOD_SHIFT = 32  # of `gathering`: method row + 1, and handler + 1
_LOW = 0xFFFF_FFFF


def mark(q: memoryview, owns: Sequence[int], current: int) -> None:
    """The calls whose slots' words begin at `owns` are about to begin with `current`."""
    for own in owns:
        q[own + W_NEXT] = current | MEMBER


def began_with(q: memoryview, own: int, current: int) -> bool:
    """Whether a claimed call began with `current`, of its handler's record: as one of several."""
    return bool(current) and q[own + W_NEXT] == current | MEMBER


class JointClaims:
    """`slots` and `tokens` are the joint run that the last claim of this process ended with."""

    def __init__(self, table: CallTable) -> None:
        self._table, self._q = table, table.q
        self.follow(table.draws)
        self.methods: dict[int, tuple[int, int]] = {}  # row -> most calls, ns to wait for them
        self.slots: list[int] = []
        self.tokens: list[int] = []
        self.gathers = False  # this handler is to wait for more
        self.unfinished = False  # more may join that wait already, in another section

    def follow(self, draws: Draws) -> None:
        """From now on it is about the calls, and the handlers, of that group."""
        self._draws, self._group = draws, draws.group
        self._waiting, self.gathering_word = draws.waiting_word, draws.gathering_word
        self._room = draws.gathering_room_word

    def clear(self) -> None:
        """Before a claim."""
        self.slots.clear()
        self.tokens.clear()

    def start(self, policy: QueuePolicy, handler: int, slot: int, token: int, now_ns: int) -> None:
        """`slot`, just claimed, is the first one; those that wait join it, and it may gather."""
        self.slots.append(slot)
        self.tokens.append(token)
        self._join(policy, handler, now_ns)
        self._gather(handler, last=False)

    def join(self, handler: int, now_ns: int, *, last: bool) -> None:
        """Those that wait join; `last`: their handler does not gather any more."""
        table = self._table
        claims = table.claims
        claims.serve(handler)
        claims.wake = claims.looked_at = 0
        with table.queue_lock:
            policy = table.load_policy()
            now_ns = table.plain_charges.begin(now_ns)
            self._join(policy, handler, now_ns)
            if self._q[self.gathering_word] & _LOW == handler + 1:
                self.forget()
            self._gather(handler, last)

    def _gather(self, handler: int, last: bool) -> None:
        """It waits for more where there is room, nobody else does so, and nothing else waits."""
        q, table = self._q, self._table
        method = self.method
        most, within_ns = self.methods[method]
        room = most - len(self.slots)
        idle = not q[self._waiting] or table.some_idles(self._group)
        wanted = not last and not self.unfinished and room > 0 and within_ns > 0
        self.gathers = wanted and idle and not q[self.gathering_word]
        if self.gathers:
            q[self._room] = room
            q[self.gathering_word] = method + 1 << _METHOD_SHIFT | handler + 1

    def forget(self) -> None:
        """Nobody gathers, as far as anybody else need know."""
        self._q[self.gathering_word] = 0

    def to_wake(self, slots: Sequence[int], expected_ns: int) -> int:
        """Whom to wake for the `slots` just accepted, while somebody gathers: a bitmap."""
        q, word = self._q, self._q[self.gathering_word]
        method, gatherer = (word >> _METHOD_SHIFT) - 1, 1 << (word & _LOW) - 1
        theirs = min(sum(self._method(slot) == method for slot in slots), q[self._room])
        others, wake = len(slots) - theirs, 0
        q[self._room] -= theirs
        if others:
            expected_ns = expected_ns * others // len(slots)
            wake = self._table.idle_to_wake(others, expected_ns, self._group)
        if not q[self._room] or (others and not wake):
            self.forget()
            wake |= gatherer
        return wake

    @property
    def method(self) -> int:
        """The row of the method of `slots`."""
        return self._method(self.slots[0])

    def method_at(self, own: int) -> int:
        """The row of the method of a call with words at `own`; -1: it is to run alone."""
        word = self._q[own + W_CALL]
        if self._q[own] & _ATTEMPTS or word & _UNDECODED:
            return -1
        return word & _LOW

    def _method(self, slot: int) -> int:
        return self.method_at(self._table.slot0 + slot * SLOT_WORDS)

    # -- who joins -------------------------------------------------------------------------------

    def _join(self, policy: QueuePolicy, handler: int, now_ns: int) -> None:
        method, table, left = self.method, self._table, AT_ONCE
        most, _ = self.methods[method]
        self.unfinished = False
        while len(self.slots) < most:
            slot = self._draws.next(policy)
            if slot < 0:
                return
            if self._method(slot) != method:
                self._join_from_behind(policy, handler, now_ns, left)
                return
            if not left or table.claims.looked_enough:
                self.unfinished = True
                return
            left -= 1
            if table.claims.lets_go(policy, slot, handler, now_ns):
                self._draws.drawn(policy, slot)
                self._take(slot, handler, now_ns)

    def _join_from_behind(self, policy: QueuePolicy, handler: int, now_ns: int, left: int) -> None:
        """At most `left` of them."""
        method, table = self.method, self._table
        most, _ = self.methods[method]
        for slot, _ in zip(self._draws_to_come(policy), range(LOOKS), strict=False):
            if self._method(slot) != method:
                continue
            if not left or table.claims.looked_enough:
                self.unfinished = True
                return
            left -= 1
            if table.claims.lets_go(policy, slot, handler, now_ns):
                self._q[self._draws.drawn_word] += 1
                self._take(slot, handler, now_ns)
                if len(self.slots) == most:
                    return

    def _take(self, slot: int, handler: int, now_ns: int) -> None:
        table = self._table
        token = table.claims.take(slot, table.slot0 + slot * SLOT_WORDS, handler, now_ns)
        self.slots.append(slot)
        self.tokens.append(token)

    def _draws_to_come(self, policy: QueuePolicy) -> Iterator[int]:
        """What waits, in the order in which it would be drawn; what was given may be gone by then.

        Lanes first, whose debts are not played through.
        """
        rings, draws = self._table.rings, self._draws
        for lane in reversed(range(LANES)):
            yield from rings.in_order(draws.lane0 + lane)
        waiting = [rings.in_order(draws.base + level) for level in range(policy.levels)]
        level, credit = self._q[draws.cursor_word], self._q[draws.credit_word]
        while (slot := _first_from(waiting, level, policy.scan_from_cursor)) >= 0:
            yield slot
            level, credit = draws.following(policy, level, credit)


def _first_from(waiting: Sequence[Iterator[int]], level: int, from_cursor: bool) -> int:
    """The next slot of `level`; if there is none, of the first level that has one; -1."""
    start = level if from_cursor else 0
    slot = next(waiting[level], -1)
    for step in range(len(waiting)):
        if slot >= 0:
            break
        slot = next(waiting[(start + step) % len(waiting)], -1)
    return slot
