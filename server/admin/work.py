"""What the handlers do, and have done: a row per method, and a row per handler.

The columns have one writer each and are summed here (`shm.columns`); the call that a handler runs
is read as after a death (`autopsy`), and left out if it has ended meanwhile.
"""

from __future__ import annotations

from typing import Any

from ...scheduling.units import TimeUnit
from ...shm.columns import Counter
from ...shm.shared import Shared
from ...shm.states import Life
from ..supervisor.autopsy import running_call

SUFFIXES = {
    TimeUnit.NANOSECONDS: "ns",
    TimeUnit.MICROSECONDS: "us",
    TimeUnit.MILLISECONDS: "ms",
    TimeUnit.SECONDS: "s",
    TimeUnit.MINUTES: "min",
    TimeUnit.HOURS: "h",
    TimeUnit.DAYS: "d",
}


def methods(shared: Shared, metrics_timeunit: str) -> list[dict[str, Any]]:
    """Every method of the service, and what else was run; the times in `metrics_timeunit`.

    `expected` is what most calls take, by which a claim decides, the rest is since the start. A run
    that ended with its handler is a failed call, whose time is not known.
    """
    table, columns = shared.names.methods, shared.columns.methods
    calls, failed, spent_ns = (
        columns[name].sum(axis=0) for name in ("calls", "failed", "spent_ns")
    )
    died = shared.columns.deaths().sum(axis=0)
    most_ns, unit = columns["max_ns"].max(axis=0), TimeUnit[metrics_timeunit]
    suffix = SUFFIXES[unit]
    found = []
    for row in table.used_rows():
        name, ended, lost = table.name(row), int(calls[row]), int(died[row])
        if name.startswith("(") and not ended + lost:
            continue
        found.append(
            {
                "method": name,
                "calls": ended + lost,
                "failed": int(failed[row]) + lost,
                f"mean_{suffix}": _in(unit, int(spent_ns[row]) // max(1, ended)),
                f"max_{suffix}": _in(unit, int(most_ns[row])),
                f"expected_{suffix}": _in(unit, int(table.rows["expected_ns"][row])),
            }
        )
    return sorted(found, key=lambda method: (-method["calls"], method["method"]))


def handlers(shared: Shared, busy: list[float], now_ns: int) -> list[dict[str, Any]]:
    """Every handler: `busy` is the share of the last seconds that it spent in user code."""
    found, died = [], shared.columns.deaths().sum(axis=1)
    for number in range(shared.geometry.handlers):
        row = shared.row("handler", number)
        counted = shared.columns.counters[row.index]
        runs, lost = running_call(shared, number, now_ns), int(died[number])
        found.append(
            {
                "index": number,
                "pid": row["pid"],
                "state": _state(row["pid"], row["status"], bool(runs)),
                "calls": int(counted[Counter.RUN]) + lost,
                "failed": int(counted[Counter.FAILED]) + lost,
                "busy_share": round(busy[number], 3),
                "method": runs.get("method"),
                "user": runs.get("user"),
                "age_ms": runs.get("age_ms"),
            }
        )
    return found


def _state(pid: int, status: int, runs: bool) -> str:
    if not pid:
        return "absent"
    if status != Life.READY:
        return Life(status).name.lower()
    return "running" if runs else "idle"


def _in(unit: TimeUnit, ns: int) -> float | None:
    """`ns` in `unit`, to a thousandth; None for what never took any time."""
    return round(ns / unit, 3) if ns else None
