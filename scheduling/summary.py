"""What a decay scheduler shows of itself: Hadoop's bean and metrics (`DecayRpcSchedulerMXBean`).

All names are Hadoop's. Metrics list the heaviest users by raw cost, ties by name (Hadoop's order
there is arbitrary); a user has a priority metric if the last sweep decided one.
"""

from __future__ import annotations

from typing import Any

from .decay_scheduler import DecayRpcScheduler

Metric = tuple[str, int | float]  # "counter" or "gauge", and the value


def dump(scheduler: DecayRpcScheduler) -> dict[str, Any]:
    """The whole state: costs and decision per identity, totals, and response times per level."""
    ledger, times = scheduler.ledger, scheduler.response_times
    return {
        "users": {
            name: {"decayed": ledger.cost(name), "raw": ledger.raw_cost(name)} for name in ledger
        },
        "cached_priority": dict(scheduler.decisions),
        "total_decayed": ledger.ordinary.decayed,
        "total_raw": ledger.ordinary.raw,
        "service_total_decayed": ledger.service.decayed,
        "service_total_raw": ledger.service.raw,
        "unique_users": len(ledger),
        "avg_response": times.mean.tolist(),
        "count_last_window": times.last_count.tolist(),
    }


def bean(scheduler: DecayRpcScheduler) -> dict[str, Any]:
    """The attributes of Hadoop's bean."""
    ledger, times = scheduler.ledger, scheduler.response_times
    volumes = {name: ledger.cost(name) for name in ledger}
    return {
        "AverageResponseTime": times.mean.tolist(),
        "CallVolumeSummary": {name: cost for name, cost in volumes.items() if cost > 0},
        "ResponseTimeCountInLastWindow": times.last_count.tolist(),
        "SchedulingDecisionSummary": dict(scheduler.decisions),
        "TotalCallVolume": ledger.ordinary.decayed,
        "UniqueIdentityCount": len(ledger),
    }


def metrics(scheduler: DecayRpcScheduler) -> dict[str, Metric]:
    """The metrics, by name."""
    ledger = scheduler.ledger
    found: dict[str, Metric] = {
        "UniqueCallers": ("counter", len(ledger)),
        "DecayedCallVolume": ("counter", ledger.ordinary.decayed),
        "CallVolume": ("counter", ledger.ordinary.raw),
        "ServiceUserDecayedCallVolume": ("counter", ledger.service.decayed),
        "ServiceUserCallVolume": ("counter", ledger.service.raw),
    }
    for name, raw in top_users(scheduler):
        found[f"Caller({name}).Volume"] = ("counter", raw)
        if name in scheduler.decisions:
            found[f"Caller({name}).Priority"] = ("counter", scheduler.decisions[name])
    return found | _per_level(scheduler)


def top_users(scheduler: DecayRpcScheduler) -> list[tuple[str, int]]:
    """The identities of the highest positive raw costs, at most `top_users`, highest first."""
    raw = [(name, scheduler.ledger.raw_cost(name)) for name in scheduler.ledger]
    heaviest = sorted((pair for pair in raw if pair[1] > 0), key=lambda pair: (-pair[1], pair[0]))
    return heaviest[: scheduler.settings.top_users]


def _per_level(scheduler: DecayRpcScheduler) -> dict[str, Metric]:
    times = scheduler.response_times
    found: dict[str, Metric] = {}
    for level, (mean, count) in enumerate(
        zip(times.mean.tolist(), times.last_count.tolist(), strict=True)
    ):
        found[f"Priority.{level}.AvgResponseTime"] = ("gauge", mean)
        found[f"Priority.{level}.CompletedCallVolume"] = ("gauge", count)
    return found
