"""`faircall explain USER`: why a user has its level, what it calls, what it waits for.

standing     level, share, thresholds, and when it gets better           (`server.standing`)
rates        cost, calls and refused calls a second, of the last ten seconds
methods, contexts, addresses     what it does most, of the last seconds   (`contributions`)
waits        its calls in the queue: at which level, for how long, held by which limiter
refused      by which rule, and how often
exempt       what would change it
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...shm.names import OTHERS
from ...shm.top_callers import REASONS
from ..standing import DECAY, LevelRules, level_rules, standing
from ..user_rows import UserRows
from .contributions import Contribution, Rates, contributions, of_user, summed
from .slots import waits_of
from .user_calls import in_flight
from .user_list import UserList, wait_p99_ms

if TYPE_CHECKING:
    from ..port import Port

MOST = 10  # methods, contexts, addresses
MOST_KNOWN = 5  # users that an error names

RULES = {
    "queue_full": "callqueue.total-capacity (its level, or the queue, was full), or"
    " limits.segment-payload-bytes",
    "too_many_in_flight": "callqueue.max-principal-share (it had its whole share of the queue)",
    "response_time": "decay-scheduler.backoff.responsetime (a level responds too slowly)",
    "max_wait": "callqueue.max-wait-ms (its level would make it wait for longer)",
    "throttled": "a rate limit opens behind the call's deadline (`faircall throttle explain`)",
}


class NoSuchUser(Exception):
    """Neither has it a row nor do readers list it; the message says what to do."""


def explain_user(port: Port, users: UserList, name: str, now_ns: int) -> dict[str, Any]:
    """Everything about `name` at one port. NoSuchUser."""
    shared, rules = port.shared, level_rules(port.ipc)
    row, rows = shared.names.identities.find(name), users.rows()
    own = of_user(contributions(shared, now_ns), name, row)
    if row < 0 and not own:
        raise NoSuchUser(_unknown(port, rows, name))
    found: dict[str, Any] = {"port": port.number, "user": name}
    if row < 0:
        found |= {"standing": None, "note": _newcomer(port, own)}
    else:
        found |= {
            "standing": standing(rules, rows, row, name),
            **_rates(port, users, rows, row, now_ns),
        }
    return {
        **found,
        "methods": _most(own, lambda each: each.method, "method"),
        "contexts": _most(own, lambda each: each.context, "context"),
        "addresses": _most(own, lambda each: each.address, "address"),
        "waits": waits_of(port, row, name, now_ns),
        "refused": _refused(own),
        "exempt": _exempt(rules, name),
    }


def _rates(port: Port, users: UserList, rows: UserRows, row: int, now_ns: int) -> dict[str, Any]:
    rates, calls = users.rates(rows, now_ns), in_flight(port.shared)
    return {
        "rates": {
            "cost_per_s": round(float(rates.cost[row]), 1),
            "calls_per_s": round(float(rates.calls[row]), 1),
            "refused_per_s": round(float(rates.refused[row]), 1),
            "waiting": int(calls.waiting[row]),
            "running": int(calls.running[row]),
            "wait_p99_ms": wait_p99_ms(port).get(row),
            "calls": int(rows.calls[row]),
            "cost": int(rows.cost[row]),
        }
    }


def _most(
    own: Sequence[Contribution], key: Callable[[Contribution], str], name: str
) -> list[dict[str, Any]]:
    """The heaviest, each with its part of this user's cost."""
    total = sum(each.rates.cost for each in own) or 1.0
    return [
        {
            name: text,
            "share": round(rates.cost / total, 4),
            "cost_per_s": round(rates.cost, 1),
            "calls_per_s": round(rates.calls, 1),
            "handlers_busy": round(rates.busy, 2),
            "refused_per_s": round(sum(rates.refused.values(), 0.0), 1),
        }
        for text, rates in summed(own, key)[:MOST]
    ]


def _refused(own: Sequence[Contribution]) -> list[dict[str, Any]]:
    total = Rates()
    for each in own:
        total.add(each.rates)
    return [
        {"reason": reason, "per_s": round(total.refused[reason], 1), "rule": RULES[reason]}
        for reason in REASONS
        if total.refused.get(reason, 0.0) >= 0.05
    ]


def _exempt(rules: LevelRules, name: str) -> list[str]:
    """What an operator may do about it."""
    if name in rules.service_users or name in rules.reserved_users:
        return []
    found = [
        f"a service user is always level 0: decay-scheduler.service-users = [{name!r}]",
        f"a lane of its own, with a bounded share: scheduler.reserved-users = [{name!r}]",
    ]
    if rules.scheduler == DECAY and rules.thresholds:
        shown = ", ".join(f"{100 * threshold:g}" for threshold in rules.thresholds)
        found.append(f"other thresholds: decay-scheduler.thresholds, now [{shown}] percent")
    return found


def _newcomer(port: Port, own: Sequence[Contribution]) -> str:
    accounts = {
        port.shared.names.identities.name(each.identity) for each in own if each.identity >= 0
    }
    charged = " and ".join(sorted(filter(None, accounts))) or "an account that it shares"
    return f"a newcomer without a row of its own: it is charged to {charged}"


def _unknown(port: Port, rows: UserRows, name: str) -> str:
    used = rows.used.copy()
    used[OTHERS] = False
    names = {row: port.shared.names.identities.name(row) for row in np.flatnonzero(used).tolist()}
    heavy = [names[row] for row in rows.heaviest(MOST_KNOWN) if row in names]
    near = difflib.get_close_matches(name, names.values(), 1) or heavy
    known = f"known is {', '.join(near)}" if near else "nobody has called"
    return (
        f"no user {name!r} at port {port.number}: it has not called, or not for so long that its"
        f" row was given to another; {known}"
    )
