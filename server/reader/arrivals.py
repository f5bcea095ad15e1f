"""What a reader charges: a call when it arrives, a refused call, and the writing of an answer.

    costs of 1 on arrival     all calls of a message at once; nothing more is to be done
    costs by time             a call's method's mean cost is reserved; its handler settles the rest
    charged on completion     nothing; its handler charges the whole

A refused call stays charged, unless `decay-scheduler.charge-refused` is off: then what it was
charged is taken back. The response phase is charged by who writes the answer, for costs that are
sums over phases (not for a user's own provider, which is loaded in handlers only).
"""

from __future__ import annotations

from ...scheduling.cost import CostRules, Phase
from ...shm.columns import MASK
from ...shm.layout import METHOD, SLOT, WORD, word_of
from ...shm.rings import SLOT_WORDS
from ...shm.shared import Shared

_METHOD_WORDS, _MEAN_COST = METHOD.itemsize // WORD, word_of(METHOD, "mean_cost")
_CHARGED, _IDENTITY, _QUEUED = (
    word_of(SLOT, name) for name in ("charged", "identity", "queued_ns")
)


class Arrivals:
    """Those at the reader whose process index is `index`, which for readers is their number.

    `unit` is what each call costs at once. `stamps`: slots need `charged` and `queued_ns`.
    """

    def __init__(self, shared: Shared, index: int, rules: CostRules, charge_refused: bool) -> None:
        self._q, self._index, self._charge = shared.segment.q, index, shared.columns.charge
        self._refused = shared.columns.refused
        self._slot0 = shared.table.slot0
        self._mean0 = shared.names.methods.first + _MEAN_COST
        self.charge_refused = charge_refused
        self._reserves = rules.charge == "arrival"
        self.stamps = not rules.counts_on_arrival
        self.unit = int(rules.counts_on_arrival)
        provider = rules.build() if rules.is_ours else None
        self._phase_cost = getattr(provider, "phase_cost", None)
        self.charges_responses = self._phase_cost is not None

    def reserve(self, row: int, method: int, slot: int) -> None:
        """A call of `method`, of caller `row`, is staged in `slot`; -1 if no slot was left."""
        cost = self._q[self._mean0 + method * _METHOD_WORDS] if self._reserves else 0
        if slot >= 0:
            self._q[self._slot0 + slot * SLOT_WORDS + _CHARGED] = cost
        elif not self.charge_refused:
            return
        if cost:
            self._charge(self._index, row, cost, 0)

    def offered(self, slot: int, now_ns: int) -> None:
        """The enqueue phase of the call in `slot` ends."""
        self._q[self._slot0 + slot * SLOT_WORDS + _QUEUED] = now_ns

    def refused_without_slot(self, row: int) -> None:
        """A call of caller `row` was refused before it had a slot."""
        self._refused(self._index, row)
        if self.unit and not self.charge_refused:
            self._charge(self._index, row, -self.unit, 0)

    def refused(self, slot: int) -> None:
        """The call that is staged in `slot` was refused."""
        own = self._slot0 + slot * SLOT_WORDS
        row = self._q[own + _IDENTITY] & 0xFFFF_FFFF
        self._refused(self._index, row)
        if self.charge_refused:
            return
        cost = self._q[own + _CHARGED] if self.stamps else self.unit
        self._charge(self._index, row, -cost, 0)

    def responded(self, slot: int, spent_ns: int) -> None:
        """The answer of the call in `slot`, which is not released yet, took so long to write."""
        if self._phase_cost is None:
            return
        row = self._q[self._slot0 + slot * SLOT_WORDS + _IDENTITY] & 0xFFFF_FFFF
        cost = self._phase_cost(Phase.RESPONSE, spent_ns) & MASK
        if cost:
            self._charge(self._index, row, cost, 0)
