"""Who calls what of late, summed over the readers' lists (`shm.top_callers`), as rates.

A rate is what was counted, decayed, by the time that it was counted in, decayed as well: half of it
is of the last four seconds, nine tenths of the last thirteen. A reader that has not published for a
while is dead or stopped, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...shm.names import NameTable
from ...shm.shared import Shared
from ...shm.top_callers import FIGURES, REASONS, Published

STALE_NS = 10_000_000_000
LEAST_SECONDS = 0.2
UNKNOWN_METHOD = "(unknown method)"
_LOW = 0xFFFF_FFFF
_REFUSED = FIGURES - len(REASONS)


@dataclass(slots=True)
class Rates:
    """Per second; `busy` is how many handlers it keeps busy."""

    calls: float = 0.0
    cost: float = 0.0
    busy: float = 0.0
    refused: dict[str, float] = field(default_factory=dict)

    def add(self, other: Rates) -> None:
        self.calls += other.calls
        self.cost += other.cost
        self.busy += other.busy
        for reason, rate in other.refused.items():
            self.refused[reason] = self.refused.get(reason, 0.0) + rate


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one user's calls of one method, with one context, from one address do.

    `identity` is the row that is charged, -1 if it is another's by now; `address` "" on a Unix
    socket, `context` "" without any.
    """

    user: str
    context: str
    method: str
    address: str
    identity: int
    rates: Rates


def contributions(shared: Shared, now_ns: int) -> list[Contribution]:
    """Those of all readers; the same of two readers are two."""
    found: list[Contribution] = []
    for reader in range(shared.geometry.readers):
        published = shared.top_callers.read(reader)
        if published is not None and now_ns - published.at_ns < STALE_NS:
            found += _of_reader(shared, published)
    return found


def _of_reader(shared: Shared, published: Published) -> list[Contribution]:
    seconds = max(LEAST_SECONDS, published.seconds)
    methods, rows, rates = shared.names.methods, published.rows, published.figures / seconds
    names = {row: _method(methods, row) for row in set(rows["method"].tolist())}
    found = []
    for at, figures in enumerate(rates.tolist()):
        found.append(
            Contribution(
                published.text(at, "user"),
                published.text(at, "context"),
                names[int(rows["method"][at])],
                published.text(at, "address"),
                _row(shared, int(rows["identity"][at])),
                _rates(figures),
            )
        )
    return found


def _rates(figures: list[float]) -> Rates:
    refused = {
        reason: rate for reason, rate in zip(REASONS, figures[_REFUSED:], strict=True) if rate
    }
    return Rates(figures[0], figures[1], figures[2] / 1e9, refused)


def _method(methods: NameTable, row: int) -> str:
    return methods.name(row) if row < methods.count else UNKNOWN_METHOD


def _row(shared: Shared, reference: int) -> int:
    row, names = reference & _LOW, shared.names
    is_its = row < names.identities.count and names.reference(row) == reference
    return row if is_its else -1


def of_user(found: Iterable[Contribution], name: str, row: int) -> list[Contribution]:
    """Those of the user of that name, and those that are charged to identity `row`."""
    return [each for each in found if each.user == name or (row >= 0 and each.identity == row)]


def summed(
    found: Iterable[Contribution], key: Callable[[Contribution], str]
) -> list[tuple[str, Rates]]:
    """By whatever `key` says, the highest cost first."""
    sums: dict[str, Rates] = {}
    for each in found:
        sums.setdefault(key(each), Rates()).add(each.rates)
    return sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].calls, item[0]))
