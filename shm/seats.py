"""Seats: long calls leave a handler to those who call briefly, and to other callers.

Turns and levels share out handlers that become free. They cannot help who comes while every handler
is in a call of seconds. So *long* calls, of methods that are expected to take at least the policy's
`long_ns`, do not get the last handler of their group that runs none,

    as long as calls that are not long wait, or one was served within KEPT_NS; and,
    if all the others run long calls of the same caller, as long as other callers' do.

What waits and may have that seat is served instead; if nothing does, it stays empty.

Express handlers have no seats: what they serve are brief calls, which keep none for others of their
kind, only for what else their callers may send.

Each handler says in its process record (`serving`) for which principal it runs a long call, from
the claim of it until its next claim. A handler that is not ready counts for nothing, so a death
needs no repair. The GROUP record says when a call was served last that was not long, and who was
served last, and since when nobody else was. All of it runs with the queue lock held, and only where
the policy asks for it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from .draws import Draws
from .layout import GROUP, METHOD, WORD, word_of
from .limiter_counters import METHOD_WORDS
from .offers import W_PRINCIPAL
from .policy import QueuePolicy
from .processes import ProcessRow, process_index
from .rings import SLOT_WORDS, W_CALL
from .states import CLASS_SHIFT, Life

if TYPE_CHECKING:
    from .table import CallTable

KEPT_NS = 10_000_000_000  # after somebody else's last call
LOOKED_AT = 64  # calls of a level, for one that may have the last seat
_LOW = 0xFFFF_FFFF


class Seats:
    """Those of the group of one handler, as that handler sees them; `follow` says which."""

    def __init__(self, table: CallTable) -> None:
        self._table, self._q, self._rings = table, table.q, table.rings
        self._slot0 = table.slot0
        self._expected0 = table.segment.layout.methods // WORD + word_of(METHOD, "expected_ns")
        self._others: list[tuple[int, int]] = []
        self._own = self._served_word = self._since_word = self._brief_word = 0

    def follow(self, handler: int, draws: Draws) -> None:
        """From now on this is `handler`, which claims what `draws` draws."""
        segment, geometry = self._table.segment, self._table.geometry
        record = segment.layout.groups + draws.group * GROUP.itemsize
        self._served_word = segment.word(record, GROUP, "served")
        self._since_word = segment.word(record, GROUP, "served_since_ns")
        self._brief_word = segment.word(record, GROUP, "brief_ns")
        is_express = geometry.is_express(handler)
        self._draws, self._own = draws, 0 if is_express else self._word(handler, "serving")
        self._others = [
            (self._word(other, "status"), self._word(other, "serving"))
            for other in geometry.ordinary_of(draws.group)
            if other != handler
        ]

    def _word(self, handler: int, field: str) -> int:
        index = process_index(self._table.geometry, "handler", handler)
        return ProcessRow(self._table.segment, index).word(field)

    def leave(self) -> None:
        """This handler has ended what it had claimed."""
        if self._own:
            self._q[self._own] = 0

    def take(self, policy: QueuePolicy, own: int, count: int, now_ns: int) -> None:
        """This handler has claimed `count` calls, the last of which has its words at `own`; those
        before it are brief."""
        q = self._q
        caller = (q[own + W_PRINCIPAL] & _LOW) + 1
        if q[self._served_word] != caller:
            q[self._served_word] = caller
            q[self._since_word] = now_ns
        if not self._own:
            return  # short calls that an express handler serves need no other seat
        if q[own + W_CALL] >> CLASS_SHIFT & 1 and self._is_long(policy, own):
            q[self._own] = caller
        if count > 1 or not q[self._own]:
            q[self._brief_word] = now_ns + 1

    def choose(self, policy: QueuePolicy, slot: int, now_ns: int) -> int:
        """`slot`, whose turn it is, or the one that this handler claims instead; -1: none."""
        own = self._slot0 + slot * SLOT_WORDS
        if not self._is_long(policy, own):
            return slot
        q = self._q
        others = [q[serving] for status, serving in self._others if q[status] == Life.READY]
        if not others or 0 in others:
            return slot
        caller = self._caller(own)
        only = caller if others.count(caller) == len(others) else 0
        instead = self._another(policy, only)
        if instead < 0 and not self._is_kept(only, now_ns):
            return slot
        return instead

    def _is_kept(self, only: int, now_ns: int) -> bool:
        """Whether those for whom a seat is kept, beside the caller `only`, were here lately."""
        q = self._q
        if q[self._brief_word] and now_ns - q[self._brief_word] < KEPT_NS:
            return True
        return bool(only) and (
            q[self._served_word] != only or now_ns - q[self._since_word] <= KEPT_NS
        )

    def _another(self, policy: QueuePolicy, only: int) -> int:
        """The first call, level by level, that is not long, or not of the caller `only` if that is
        not 0; -1 if there is none."""
        base = self._draws.base
        for level in range(base, base + policy.levels):
            for slot in islice(self._rings.in_order(level), LOOKED_AT):
                own = self._slot0 + slot * SLOT_WORDS
                if not self._is_long(policy, own) or (only and self._caller(own) != only):
                    return slot
            if (slot := self._rings.first_short(level)) >= 0:
                return slot  # behind so many long ones
        return -1

    def _caller(self, own: int) -> int:
        return (self._q[own + W_PRINCIPAL] & _LOW) + 1

    def _is_long(self, policy: QueuePolicy, own: int) -> bool:
        call = self._q[own + W_CALL]
        if not call >> CLASS_SHIFT & 1:
            return False  # it is of the short class
        return self._q[self._expected0 + (call & _LOW) * METHOD_WORDS] >= policy.long_ns
