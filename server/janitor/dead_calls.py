"""The calls of a dead handler: counted for their methods, and charged for.

The one that it ran counts as a failed call of its method, also if it is run again (`shm.columns`:
`died`). Those before it that had ended, but were not published, have taken what they took.

Where a call is not just charged 1 on arrival, it is charged for the time that it ran, if that is
more than what was reserved; else the reservation stays. Exactly once: a call that is run again pays
the difference only (`shm.settlement`). A user's own cost provider is loaded in handlers only:
there, the reservation stays in any case.
"""

from __future__ import annotations

from ...scheduling.cost import CostProvider, CostRules
from ...shm import states
from ...shm.figures import CallFigures
from ...shm.layout import SLOT, word_of
from ...shm.recovery import is_complete
from ...shm.rings import SLOT_WORDS
from ...shm.settlement import Settlement, redo
from ...shm.shared import Shared
from ...shm.states import Status
from ...workers.context import Call
from ...workers.costs import phase_times

_ODD = 0x9E37_79B1  # spreads slots over the marks of 32 bits
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_NOT_RUN = (Status.EXPIRED, Status.THROTTLED)  # which their handler has counted


class DeadCalls:
    """`count` and `charge` are called before the calls of a dead handler are settled; both may be
    repeated. (What had ended before the one that it ran is counted again then.)"""

    def __init__(self, shared: Shared, rules: CostRules) -> None:
        self._shared, self._q = shared, shared.segment.q
        self._provider = rules.build() if rules.is_ours else None
        self._active = self._provider is not None and not rules.counts_on_arrival
        index = shared.index("janitor")
        self._settlement = Settlement(shared.segment, shared.columns, index)

    def count(self, handler: int) -> None:
        """The call that the dead `handler` ran is a failed one of its method; or all that it ran
        together.

        Those whose answers are complete were not counted yet, but if it died as it published.
        """
        self._count_complete(handler)
        running, _ = self._running(handler)
        if not running:
            return
        own = running[0]
        word, method = self._q[own], self._q[own + _S["call"]] & 0xFFFF_FFFF
        if method < self._shared.geometry.methods:
            # Generation and attempt, which tell runs of one slot apart; the slot, for all others.
            mark = (word >> states.ATTEMPT_SHIFT) + own * _ODD & 0xFFFF_FFFF
            self._shared.columns.died(handler, method, mark, len(running))

    def _count_complete(self, handler: int) -> None:
        q, shared = self._q, self._shared
        index = shared.index("handler", handler)
        figures = CallFigures(shared.segment, shared.columns, shared.histograms, handler, index)
        for slot in shared.table.recovery.claimed_by(handler):
            own = shared.table.slot0 + slot * SLOT_WORDS
            answer, generation = q[own + _S["answer"]], q[own] >> states.GENERATION_SHIFT
            is_known = q[own + _S["call"]] & 0xFFFF_FFFF < shared.geometry.methods
            if is_known and is_complete(answer, generation) and answer & 0xFF not in _NOT_RUN:
                spent_ns = q[own + _S["spent_ns"]]
                ended_ns = q[own + _S["claimed_ns"]] + spent_ns  # at the earliest
                figures.ran(own, ended_ns, spent_ns, answer & 0xFF == Status.ERROR)
        figures.store()

    def charge(self, handler: int, now_ns: int) -> bool:
        """Whether a call that the dead `handler` ran is charged more than before."""
        redo(self._shared.segment, self._shared.index("handler", handler))
        if self._provider is None or not self._active:
            return False
        running, together = self._running(handler)
        more = [self._charge(own, together, now_ns, self._provider) for own in running]
        return any(more)

    def _charge(self, own: int, together: int, now_ns: int, provider: CostProvider) -> bool:
        """Of `together` calls that ran at once each is charged its part."""
        q = self._q
        claimed_ns = q[own + _S["claimed_ns"]]
        spent_ns = max(0, now_ns - claimed_ns) // together
        call = Call(processing_ns=spent_ns)
        arrived_ns, queued_ns = q[own + _S["arrived_ns"]], q[own + _S["queued_ns"]]
        ended_ns = claimed_ns + spent_ns
        cost = provider.cost(phase_times(call, arrived_ns, queued_ns, claimed_ns, ended_ns))
        if cost <= q[own + _S["charged"]]:
            return False
        self._settlement.settle(own, cost)
        return True

    def _running(self, handler: int) -> tuple[list[int], int]:
        """Where the words begin of the calls that it ran and did not complete; and how many it ran
        together.

        The slots are the dead handler's until it is reaped: nobody else changes them meanwhile.
        """
        q, table = self._q, self._shared.table
        began = [table.slot0 + slot * SLOT_WORDS for slot in table.recovery.began(handler)]
        running = [
            own
            for own in began
            if not is_complete(q[own + _S["answer"]], q[own] >> states.GENERATION_SHIFT)
        ]
        return running, max(1, len(began))
