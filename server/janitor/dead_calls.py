"""The call that a dead handler ran: counted for its method, and charged for.

It counts as a failed call of its method, also if it is run again (`shm.columns`: `died`).

Where a call is not just charged 1 on arrival, it is charged for the time that it ran, if that is
more than what was reserved; else the reservation stays. Exactly once: a call that is run again pays
the difference only (`shm.settlement`). A user's own cost provider is loaded in handlers only:
there, the reservation stays in any case.
"""

from __future__ import annotations

from ...scheduling.cost import CostRules
from ...shm import states
from ...shm.layout import SLOT, word_of
from ...shm.recovery import is_complete
from ...shm.rings import SLOT_WORDS
from ...shm.settlement import Settlement, redo
from ...shm.shared import Shared
from ...workers.context import Call
from ...workers.costs import phase_times

_ODD = 0x9E37_79B1  # spreads slots over the marks of 32 bits
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}


class DeadCalls:
    """`count` and `charge` are called before the calls of a dead handler are settled; both may be
    repeated."""

    def __init__(self, shared: Shared, rules: CostRules) -> None:
        self._shared, self._q = shared, shared.segment.q
        self._provider = rules.build() if rules.is_ours else None
        self._active = self._provider is not None and not rules.counts_on_arrival
        index = shared.index("janitor")
        self._settlement = Settlement(shared.segment, shared.columns, index)

    def count(self, handler: int) -> None:
        """The call that the dead `handler` ran is a failed one of its method.

        One that had ended already, but whose answer was not complete, is counted by both.
        """
        own = self._running(handler)
        if own < 0:
            return
        word, method = self._q[own], self._q[own + _S["call"]] & 0xFFFF_FFFF
        if method < self._shared.geometry.methods:
            # Generation and attempt, which tell runs of one slot apart; the slot, for all others.
            mark = (word >> states.ATTEMPT_SHIFT) + own * _ODD & 0xFFFF_FFFF
            self._shared.columns.died(handler, method, mark)

    def charge(self, handler: int, now_ns: int) -> bool:
        """Whether the call that the dead `handler` ran is charged more than before."""
        redo(self._shared.segment, self._shared.index("handler", handler))
        own = self._running(handler)
        if own < 0 or self._provider is None or not self._active:
            return False
        q = self._q
        claimed_ns = q[own + _S["claimed_ns"]]
        call = Call(processing_ns=max(0, now_ns - claimed_ns))
        arrived_ns, queued_ns = q[own + _S["arrived_ns"]], q[own + _S["queued_ns"]]
        cost = self._provider.cost(phase_times(call, arrived_ns, queued_ns, claimed_ns, now_ns))
        if cost <= q[own + _S["charged"]]:
            return False
        self._settlement.settle(own, cost)
        return True

    def _running(self, handler: int) -> int:
        """Where the words begin of the call that it ran and did not complete; -1 if there is none.

        The slot is the dead handler's until it is reaped: nobody else changes it meanwhile.
        """
        current = self._shared.row("handler", handler)["current"]
        slot, generation = (current & 0xFFFF_FFFF) - 1, current >> 32
        if not 0 <= slot < self._shared.geometry.calls:
            return -1
        own = self._shared.table.slot0 + slot * SLOT_WORDS
        word = self._q[own]
        running = word & states.STATE_MASK in (states.RUNNING, states.ABANDONED)
        owner = word >> states.OWNER_SHIFT & states.OWNER_MASK
        if not running or owner != handler or word >> states.GENERATION_SHIFT != generation:
            return -1
        return -1 if is_complete(self._q[own + _S["answer"]], generation) else own
