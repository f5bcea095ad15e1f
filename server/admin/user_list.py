"""`faircall users`: who does how much, sorted, the first ones one by one and all others as one.

    share            of the decayed cost of all ordinary users; a service user has none
    cost_per_s, calls_per_s, refused_per_s     of the last ten seconds
    waiting, held    calls that wait; of these, those that a limiter holds
    running          calls that a handler has claimed
    wait_p99_ms      of the heaviest users' calls that were claimed, since they are watched

All rows are read and sorted at once; only those that are shown are looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...shm.names import OTHERS
from ..user_rows import UserRows, service_rows
from .user_calls import InFlight, in_flight
from .user_rates import SAMPLES, RowRates, UserRates

if TYPE_CHECKING:
    from ..port import Port

SORTS = ("share", "cost", "calls", "waiting", "refused")
TOP, MOST_TOP = 20, 10_000

Floats = npt.NDArray[np.float64]


class UserList:
    """Of one port; `tick` about every second keeps the rates recent."""

    def __init__(self, port: Port, now_ns: int) -> None:
        self._port = port
        self._rates = UserRates(self.rows(), now_ns)
        self._counted, self._unchanged = port.shared.columns.fingerprint(), 0

    def rows(self) -> UserRows:
        return UserRows(self._port.shared, service_rows(self._port))

    def tick(self, now_ns: int) -> bool:
        """Whether a second has passed since the last sample, and another one was taken."""
        if not self._rates.is_due(now_ns):
            return False
        counted = self._port.shared.columns.fingerprint()
        if counted == self._counted:
            self._unchanged += 1
            self._rates.tick_unchanged(now_ns)
        else:
            self._counted, self._unchanged = counted, 0
            self._rates.tick(self.rows(), now_ns)
        return True

    @property
    def rests(self) -> bool:
        """Whether nobody has a rate: nothing was counted for as long as samples are kept."""
        return self._unchanged >= SAMPLES

    def rates(self, rows: UserRows, now_ns: int) -> RowRates:
        """Of those `rows`, which were read at `now_ns`."""
        return self._rates.rates(rows, now_ns)

    def snapshot(self, now_ns: int, sort: str = "share", top: int = TOP) -> dict[str, Any]:
        """At most `top` users by one of SORTS, and the others."""
        rows, calls = self.rows(), in_flight(self._port.shared)
        rates, waits = self.rates(rows, now_ns), wait_p99_ms(self._port)
        shown = [
            (row, name)
            for row in _order(rows, rates, calls, sort)[:top].tolist()
            if (name := rows.name(row))
        ]
        rest = rows.used.copy()
        rest[[row for row, _ in shown]] = False
        return {
            "port": self._port.number,
            "users": int(rows.used.sum()) - int(rows.used[OTHERS]),
            "window_s": round(rates.window_ns / 1e9, 1),
            "top": [
                {"user": name, **_figures(rows, rates, calls, waits, row)} for row, name in shown
            ],
            "others": _summed(rows, rates, calls, rest),
            "total": _summed(rows, rates, calls, rows.used),
        }


def wait_p99_ms(port: Port) -> dict[int, float]:
    """By row, of those identities whose waits are watched, and were measured."""
    found = {}
    for row, waits in port.shared.histograms.wait_of_watched().items():
        if (ns := waits.quantile(0.99)) is not None:
            found[row] = round(ns / 1e6, 3)
    return found


def _order(rows: UserRows, rates: RowRates, calls: InFlight, sort: str) -> npt.NDArray[np.intp]:
    """All rows in use but that of the others; what is equal goes by cost, then by row."""
    by: dict[str, npt.NDArray[Any]] = {
        "share": np.where(rows.ordinary, rows.decayed, -1),
        "cost": rates.cost,
        "calls": rates.calls,
        "waiting": calls.waiting,
        "refused": rates.refused,
    }
    used = rows.used.copy()
    used[OTHERS] = False
    order = np.flatnonzero(used)
    return order[np.lexsort((order, -rows.decayed[order], -by[sort][order]))]


def _figures(
    rows: UserRows, rates: RowRates, calls: InFlight, waits: dict[int, float], row: int
) -> dict[str, Any]:
    return {
        "share": rows.share(int(rows.decayed[row])) if rows.ordinary[row] else None,
        "level": int(rows.level[row]),
        "cost_per_s": round(float(rates.cost[row]), 1),
        "calls_per_s": round(float(rates.calls[row]), 1),
        "waiting": int(calls.waiting[row]),
        "held": int(calls.held[row]),
        "running": int(calls.running[row]),
        "wait_p99_ms": waits.get(row),
        "refused_per_s": round(float(rates.refused[row]), 1),
        "calls": int(rows.calls[row]),
    }


def _summed(
    rows: UserRows, rates: RowRates, calls: InFlight, which: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    return {
        "users": int(which.sum()) - int(which[OTHERS]),
        "share": rows.share(int(rows.decayed[which & rows.ordinary].sum())),
        "cost_per_s": round(float(rates.cost[which].sum()), 1),
        "calls_per_s": round(float(rates.calls[which].sum()), 1),
        "waiting": int(calls.waiting[which].sum()),
        "held": int(calls.held[which].sum()),
        "running": int(calls.running[which].sum()),
        "refused_per_s": round(float(rates.refused[which].sum()), 1),
        "calls": int(rows.calls[which].sum()),
    }
