"""Charging where limits do not bite: by memory, one word a limiter.

A limiter is *plain* if it limits calls and nothing else (PLAIN), is open, and holds nothing. Such a
one needs no look but at its counter, as long as the period lasts:

    word = period << 32 | used          charged: word + 1, while that is below the period's limit

What else there is to know of the limiters that a call names, this process remembers from the last
such call, until the first of their periods ends. Whatever makes one no plain one any more, or
another one, raises the shard's `limiters_changed` before it does so; whoever finds it raised
forgets everything; 0 says that there are no limiters. A counter that is used up, or of a later
period, is told by its own word.

A call that is CLOSER is looked at (`blockers`, `budgets`). Everything with the queue lock held.
"""

from __future__ import annotations

from collections.abc import Callable

from ..scheduling import dispatch_rate as rate
from .limiter_counters import L_FLAGS, L_HELD, L_LIMIT, L_OPENED, L_OPENS, L_PERIOD, L_USED
from .limiters import Limiters
from .segment import Segment
from .slot_limiters import CLOSER, LIMITER_SLOT_WORDS, MORE, W_LIMITERS
from .terms import PLAIN

MOST_KEPT = 4096  # sets of limiters that calls name
_LOW = 0xFFFF_FFFF


class PlainCharges:
    """Those of one process, as it remembers them."""

    def __init__(
        self, segment: Segment, limiters: Limiters, rows_of: Callable[[int], tuple[int, ...]]
    ) -> None:
        self._q, self._limiters, self._rows_of = segment.q, limiters, rows_of
        self._changed_word, self._known = limiters.changed_word, 0
        self._renewed_word = limiters.renewed_word
        # Of the limiters that a call names: where `used` of each is, and its last word but one
        # before it shuts, all of them until then.
        self._kept: dict[int, list[tuple[int, int]]] = {}
        self._until_ns = rate.NEVER_NS

    def begin(self, now_ns: int) -> int:
        """A section of the queue lock begins, or a call was held in it: the time that counts in it.

        That is later than its own, which it took before it had the lock, if others have renewed
        limiters since: else it would find them shut until a time that has come already.
        """
        q = self._q
        if changed := q[self._changed_word]:
            if now_ns < q[self._renewed_word]:
                now_ns = q[self._renewed_word]
            if changed != self._known or now_ns >= self._until_ns:
                self.forget()
        return now_ns

    def forget(self) -> None:
        """Everything, and what changed until now is known."""
        self._known, self._until_ns = self._q[self._changed_word], rate.NEVER_NS
        self._kept.clear()

    def charge(self, own: int, word: int, now_ns: int) -> bool:
        """Charge the call with words at `own`, the first `limiters` word of which is `word`, one
        call each; False, and nothing is done, if one of its limiters is no plain one."""
        key = word if word < MORE else self._key(own, word)
        kept = self._kept.get(key)
        if kept is None:
            return key > 0 and self._charge_anew(own, key, now_ns)
        q = self._q
        for used, last in kept:
            count = q[used]
            if count >= last:
                break
            q[used] = count + 1
        else:
            return True
        for before, _ in kept:
            if before == used:
                break
            q[before] -= 1
        del self._kept[key]
        return self._charge_anew(own, key, now_ns)

    def _key(self, own: int, word: int) -> int:
        """Everything that the call names; 0 if it is to be looked at."""
        if word & CLOSER:
            return 0
        for place in range(1, LIMITER_SLOT_WORDS):
            word |= self._q[own + W_LIMITERS + place] << 64 * place
        return word

    def _charge_anew(self, own: int, key: int, now_ns: int) -> bool:
        """The same with a look at everything, which is kept."""
        q, rows = self._q, self._rows_of(own)
        for at in rows:
            if not q[at + L_FLAGS] & PLAIN:
                return False
            if q[at + L_OPENS] > now_ns or q[at + L_HELD] or q[at + L_OPENED]:
                return False
        kept = [self._charge_row(at, now_ns) for at in rows]
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = kept
        return True

    def _charge_row(self, at: int, now_ns: int) -> tuple[int, int]:
        """Where `used` of the limiter is, and its last word but one before it shuts."""
        q, period_ns, limit = self._q, self._q[at + L_PERIOD], self._q[at + L_LIMIT] - 1
        word = q[at + L_USED]
        if now_ns // period_ns > word >> 32:
            word = rate.renewed(word, now_ns // period_ns, limit)
            self._limiters.begins((word >> 32) * period_ns)
            q[at + L_OPENS] = (word >> 32) * period_ns
        q[at + L_USED] = word = word + 1
        ends_ns = min(rate.NEVER_NS, ((word >> 32) + 1) * period_ns)
        if word & _LOW == limit:
            q[at + L_OPENS] = ends_ns
        self._until_ns = min(self._until_ns, ends_ns)
        return at + L_USED, (word >> 32 << 32 | limit) - 1
