"""What the handlers do, and have done: a row per method, and a row per handler.

The columns have one writer each and are summed here (`shm.columns`); the call that a handler runs
is read as after a death (`autopsy`), and left out if it has ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...scheduling.units import TimeUnit
from ...shm.columns import Counter
from ...shm.processes import ProcessRow
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
    that ended with its handler is a failed call, whose time is not known. `calls_per_run` is of
    methods that serve several calls at once.
    """
    table, columns = shared.names.methods, shared.columns.methods
    calls, failed, spent_ns, joint_runs = (
        columns[name].sum(axis=0) for name in ("calls", "failed", "spent_ns", "joint_runs")
    )
    died = shared.columns.deaths().sum(axis=0)
    most_ns, unit = columns["max_ns"].max(axis=0), TimeUnit[metrics_timeunit]
    suffix = SUFFIXES[unit]
    found = []
    for row in table.used_rows():
        name, ended, lost = table.name(row), int(calls[row]), int(died[row])
        if name.startswith(("(", "rpc.")) and not ended + lost:
            continue
        together = {}
        if runs := int(joint_runs[row]):
            together["calls_per_run"] = round(ended / runs, 2)
        found.append(
            {
                "method": name,
                "calls": ended + lost,
                "failed": int(failed[row]) + lost,
                "died": lost,
                f"mean_{suffix}": _in(unit, int(spent_ns[row]) // max(1, ended)),
                f"max_{suffix}": _in(unit, int(most_ns[row])),
                f"expected_{suffix}": _in(unit, int(table.rows["expected_ns"][row])),
                **together,
            }
        )
    return sorted(found, key=lambda method: (-method["calls"], method["method"]))


def handlers(
    shared: Shared, busy: list[float], now_ns: int, groups: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Every handler: `busy` is the share of the last seconds that it spent in user code, `groups`
    are the names of several."""
    found, died = [], shared.columns.deaths().sum(axis=1)
    for number in range(shared.geometry.handlers):
        row = shared.row("handler", number)
        if row.is_vacant:
            continue
        counted = shared.columns.counters[row.index]
        group = {"group": groups[shared.geometry.group_of(number)]} if groups else {}
        runs, lost = running_call(shared, number, now_ns), int(died[number])
        found.append(
            {
                "index": number,
                **group,
                "express": shared.geometry.is_express(number),
                "pid": row["pid"],
                "state": "leaving" if row["leaving"] else _state(row, bool(runs)),
                "calls": int(counted[Counter.RUN]) + lost,
                "failed": int(counted[Counter.FAILED]) + lost,
                "busy_share": round(busy[number], 3),
                "method": runs.get("method"),
                "user": runs.get("user"),
                "age_ms": runs.get("age_ms"),
            }
        )
    return found


def _state(row: ProcessRow, runs: bool) -> str:
    if not row["pid"]:
        return "absent"
    if row["status"] != Life.READY:
        return Life(row["status"]).name.lower()
    return "running" if runs else "idle"


def _in(unit: TimeUnit, ns: int) -> float | None:
    """`ns` in `unit`, to a thousandth; None for what never took any time."""
    return round(ns / unit, 3) if ns else None
