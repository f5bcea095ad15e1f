"""Why a call waits: which limits it falls under, from which source, and when they let it go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...scheduling.dispatch_sources import by_subject, line_in_force, subjects_of
from ...shm.terms import Kind, key_of, kind_of, number_of
from ..limits import Key, Limits
from ..throttle import sourced_lines
from .throttle import ThrottleStats

if TYPE_CHECKING:
    from ..port import Port

LEVELS = {
    Kind.SERVER: "server",
    Kind.SERVICE: "service",
    Kind.METHOD: "method",
    Kind.CALLER: "caller",
    Kind.PAIR: "caller of method",
}


def explain(port: Port, method: str, caller: str, now_ns: int) -> dict[str, Any]:
    """The limits of a call at one port, the server's first; `opens_in_s`: when all let it go.

    None there: one of them is blocked for good. `shared`: the caller found the table of limiters
    full, and shares a row with others.
    """
    stats, row = ThrottleStats(port.shared), port.shared.names.methods.find(method)
    limits = stats.in_force()
    if limits is None or row < 0:
        nothing = {"exempt": False, "blocked": False, "opens_in_s": 0.0, "limits": []}
        return {"port": port.number, **nothing}
    found = []
    sources = {
        line: source
        for line, source in sourced_lines(port.settings.throttle, port.settings.set_rates.lines)
    }
    lines = by_subject(sources)
    readers = range(1, port.shared.geometry.readers + 1)
    owners = readers if limits.switches.per_process else [0]
    for key in [key for one in owners for key, _ in limits.keys(method, row, caller, one)]:
        line = line_in_force(lines, _subjects(limits, key, method, caller))
        if line is None:
            continue  # it learns what a method's calls take, and limits nothing
        number, shared = _row(port, limits, key)
        figures = stats.figures(limits, number, now_ns) if number >= 0 else _unused(limits, key)
        found.append({"source": sources[line], "rate": line, "shared": shared, **figures})
    opens_s = [limit["opens_in_s"] for limit in found]
    return {
        "port": port.number,
        "exempt": method in limits.policies.exempt,
        "blocked": None in opens_s,
        "opens_in_s": None if None in opens_s else max(opens_s, default=0.0),
        "limits": found,
    }


def _subjects(limits: Limits, key: Key, method: str, caller: str) -> list[str]:
    kind = kind_of(key.key)
    if kind is Kind.RESOURCE:
        return [limits.describe(Key(key_of(kind, number_of(key.key))), None)]
    return subjects_of(LEVELS[kind], method, caller)


def _row(port: Port, limits: Limits, key: Key) -> tuple[int, bool]:
    """The limiter that counts for a key, and whether others share it; -1: nobody called yet."""
    limiters = port.shared.table.limiters
    row = limiters.find(*key)
    if row < 0 and key.caller:
        row = limiters.find(*limits.others_of(key)[0])
        return row, row >= 0
    return row, False


def _unused(limits: Limits, key: Key) -> dict[str, Any]:
    calls = limits.terms_of(key).limits[0]
    blocked = calls == 0
    figures = {"used": 0, "limit": calls if calls >= 0 else None, "debt": 0}
    return {
        "limiter": limits.describe(key, None),
        **figures,
        "opens_in_s": None if blocked else 0.0,
    }
