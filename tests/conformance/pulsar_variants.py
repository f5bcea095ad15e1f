"""Runs the recorded answers of Pulsar's own, differing limiters on ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faircall.scheduling.dispatch_limiter import Limiter
from faircall.scheduling.dispatch_policies import CALLS, Rate

from .recorded import Case, Mismatch

MS = 1_000_000


def mismatches(case: Case) -> list[Mismatch]:
    """Where our limiter, of the same rate and period, answers differently."""
    params = case.fields["params"]
    limiter = Limiter(_rate(params), 0)
    found = []
    for number, op in enumerate(case.fields["ops"], start=1):
        answered = _answer(limiter, op)
        if "expect" in op and op["expect"] != answered:
            found.append(Mismatch(number, op["op"], op["expect"], answered))
    return found


def _answer(limiter: Limiter, op: Mapping[str, Any]) -> int | None:
    now_ns: int = op["t"] * MS
    match op["op"]:
        case "acquire":
            limiter.charge((op["n"], 0, 0), now_ns)
        case "set":
            limiter.apply(_rate(op), now_ns)
        case "available":
            return limiter.room(CALLS, now_ns)
        case "pause_ms":
            return max(0, limiter.opens_ns(now_ns) - now_ns) // MS
    return None


def _rate(params: Mapping[str, Any]) -> Rate:
    period_s = params.get("period_ms", 1000) // 1000
    return Rate(calls=params.get("limit", params.get("rate")), period_s=period_s)
