"""Who calls what, counted by a reader: (user, caller context, method, client's address).

    calls      as they come, those that are refused, too
    cost       on arrival 1, where calls are counted; else what a call was charged, when it is done
    busy_ns    in handlers, when a call is done
    refused    by reason

The heaviest are published four times a second (`shm.top_callers`), for the admin process to sum:
an alarm has to name who it is within one.
"""

from __future__ import annotations

from ...scheduling.top_list import KEEP, Tally, TopList
from ...shm.layout import CONTEXT_BYTES, SLOT, TOP_CALLERS, word_of
from ...shm.rings import SLOT_WORDS
from ...shm.shared import Shared
from ...shm.top_callers import FIGURES, REASONS, names_of
from .accounts import Account
from .arrivals import Arrivals
from .connection import Who
from .exchange import PendingCall

EVERY_NS = 250_000_000
UNKNOWN_METHOD = 0xFFFF_FFFF  # instead of a row
MOST_CHARS = CONTEXT_BYTES  # of a context that is told from others

Key = tuple[str, str | None, int, str | None]  # user, context, method, address

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_SPENT, _CHARGED = _S["spent_ns"], _S["charged"]
_REASONS = len(REASONS)
_SIGN = 1 << 63


class CallerCounts:
    """Those of reader `number`. `publish` is due from `next_ns` on."""

    def __init__(self, shared: Shared, number: int, arrivals: Arrivals, now_ns: int) -> None:
        self._q, self._slot0, self._number = shared.segment.q, shared.table.slot0, number
        self._names, self._published = shared.names.identities, shared.top_callers
        self._arrivals, self._unit, self._settles = arrivals, arrivals.unit, arrivals.stamps
        self._top: TopList[Key] = TopList(now_ns, keep=min(KEEP, TOP_CALLERS))
        self._packed: dict[tuple[Key, int], bytes] = {}
        self._is_empty = True
        self.next_ns = now_ns + EVERY_NS

    def count(self, who: Who, account: Account, method: int, context: str | None) -> Tally:
        """A call, for which `account` is charged; of a long context its beginning counts."""
        if context is not None and len(context) > MOST_CHARS:
            context = context[:MOST_CHARS]
        key = who.name, context, method, who.address
        tally = self._top.tallies.get(key)
        if tally is None:
            tally = self._top.tally(key)
        tally.owner = account.reference  # which may change: a newcomer gets a row of its own
        tally.calls += 1.0
        tally.cost += self._unit
        return tally

    def refused(self, pending: PendingCall, reason: int) -> None:
        """For one of REASONS."""
        tally = pending.tally
        if tally is not None:
            tally.refuse(reason, _REASONS)
            if not self._arrivals.charge_refused:
                tally.cost -= self._unit

    def answered(self, slot: int, tally: Tally) -> None:
        """The call in `slot`, which is not released yet, has an answer of its own."""
        own = self._slot0 + slot * SLOT_WORDS
        tally.busy_ns += self._q[own + _SPENT]
        if self._settles:
            cost = self._q[own + _CHARGED]
            tally.cost += cost if cost < _SIGN else 0

    def publish(self, now_ns: int) -> None:
        """Who did most; nothing, while nobody did anything."""
        self.next_ns = now_ns + EVERY_NS
        top = self._top
        if self._is_empty and not top.tallies:
            top.fold(now_ns)
            return
        top.fold(now_ns)
        tallies = top.tallies
        before, self._packed, rows = self._packed, {}, []
        for key, tally in tallies.items():
            whose = key, tally.owner
            packed = self._packed[whose] = before.get(whose) or self._pack(*whose)
            rows.append((_figures(tally), packed))
        self._published.publish(self._number, now_ns, top.seconds, _figures(top.others), rows)
        self._is_empty = not rows

    def _pack(self, key: Key, owner: int) -> bytes:
        user, context, method, address = key
        stored = self._names.key(user)[1]
        return names_of(owner, method, stored, context or "", address or "")


def _figures(tally: Tally) -> tuple[float, ...]:
    figures = (tally.calls, tally.cost, tally.busy_ns, *tally.refused)
    return figures if len(figures) == FIGURES else (*figures, *(0.0,) * _REASONS)
