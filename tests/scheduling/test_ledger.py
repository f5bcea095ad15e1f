"""The ledger against Hadoop's table of costs, written down as plainly as possible."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from faircall.scheduling.ledger import CostLedger, Volume

from .strategies import factors, unhurried

EXEMPT = frozenset({"service"})


@dataclass
class Table:
    """Costs per identity as [decayed, raw], and the totals as running sums."""

    costs: dict[str, list[int]] = field(default_factory=dict)
    ordinary: list[int] = field(default_factory=lambda: [0, 0])
    service: list[int] = field(default_factory=lambda: [0, 0])

    def charge(self, identity: str, cost: int) -> None:
        for pair in (self.costs.setdefault(identity, [0, 0]), self._totals(identity)):
            pair[0] += cost
            pair[1] += cost

    def sweep(self, factor: float) -> None:
        self.ordinary, self.service = [0, 0], [0, 0]
        for identity, pair in list(self.costs.items()):
            pair[0] = int(pair[0] * factor)
            self._totals(identity)[0] += pair[0]
            self._totals(identity)[1] += pair[1]
            if pair[0] == 0:
                del self.costs[identity]

    def _totals(self, identity: str) -> list[int]:
        return self.service if identity in EXEMPT else self.ordinary


charges = st.tuples(
    st.sampled_from(["service", *(f"user{n}" for n in range(100))]), st.integers(-50, 5000)
)


@unhurried
@given(st.lists(st.one_of(charges, factors), max_size=200))
def test_behaves_as_hadoop_s_table(steps: list[tuple[str, int] | float]) -> None:
    ledger, table = CostLedger(EXEMPT), Table()
    for step in steps:
        if isinstance(step, float):
            ledger.sweep(step)
            table.sweep(step)
        else:
            ledger.charge(*step)
            table.charge(*step)
        costs = {name: [ledger.cost(name), ledger.raw_cost(name)] for name in ledger}
        assert costs == table.costs
        assert ledger.ordinary == Volume(*table.ordinary)
        assert ledger.service == Volume(*table.service)


def test_grows_beyond_its_first_rows_and_uses_freed_ones_again() -> None:
    ledger = CostLedger()
    for round_ in range(3):
        for number in range(1000):
            ledger.charge(f"{round_}/{number}", 1)
        assert (len(ledger), ledger.ordinary.decayed) == (1000, 1000)
        ledger.sweep(0.5)
        assert len(ledger) == 0
    assert len(ledger._charged) == 1024


def test_an_unknown_identity_has_cost_nothing() -> None:
    assert (CostLedger().cost("x"), CostLedger().raw_cost("x")) == (0, 0)
