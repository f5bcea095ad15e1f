"""What fairness costs: throughput of the fair queue with callers in turn, by that of a FIFO.

The two servers are loaded side by side (`side_by_side`) with `echo` over lines, which costs next to
nothing itself, by the load generator in C: where callers take turns, their answers come one by one
instead of in rows, which costs a generator in Python twice as much, on the server's processors.
"""

from __future__ import annotations

import functools
import statistics

from ..client.address import Address
from .bench.load import run_plan
from .bench.plan import Group, Plan, Request
from .generator import Address as Place
from .pairs import LEAST_PAIRS, ratio_of
from .rows import CAPACITY, FAIR, FIFO, Row
from .side_by_side import DECIMALS, Effort, Side, pairs_of, ratio_row

CONNECTIONS = 64
CASES = ((1, 1), (1, 16), (CONNECTIONS, 16))  # users, depth
EACH_S = 0.5  # of each of a pair
ROOM = {  # the same for both, and more than is ever in flight: no connection is made to wait
    "ipc.callqueue.total-capacity": str(CAPACITY),
    "ipc.callqueue.max-principal-share": "1.0",
}
STARTS = 3


def rows(seconds: float) -> list[Row]:
    """A row for each case, of about so many seconds, or of as many pairs as it needs."""
    effort = Effort(EACH_S, max(LEAST_PAIRS, int(seconds / EACH_S / 2)), STARTS)
    return [_row(users, depth, effort) for users, depth in CASES]


def _row(users: int, depth: int, effort: Effort) -> Row:
    load = functools.partial(Planned, users=users, depth=depth)
    pairs = pairs_of(Side({**FIFO, **ROOM}), Side({**FAIR, **ROOM}), load, effort)
    cpu = [(one.cpu_us, other.cpu_us) for one, other in pairs]
    return {
        "users": users,
        "depth": depth,
        **ratio_row(pairs, "fifo", "fair"),
        "server us/call fifo": statistics.median(first for first, _ in cpu),
        "fair": statistics.median(second for _, second in cpu),
        "ratio of these": round(ratio_of(cpu).mean, DECIMALS),
    }


class Planned:
    """Load by the generator: `users` with 64 connections together, `depth` calls in flight each."""

    def __init__(self, at: Place, users: int, depth: int) -> None:
        self._address = Address(host=at[0], port=at[1])
        self._group = Group(
            name="main",
            requests=[Request("echo", '["hello"]')],
            user="user",
            users=users,
            connections=CONNECTIONS // users,
            depth=depth,
        )

    def run(self, seconds: float) -> int:
        plan = Plan(address=self._address, groups=[self._group], seconds=seconds)
        outcomes = run_plan(plan, print).groups[0].total()
        if failed := outcomes.total() - outcomes["ok"]:
            raise RuntimeError(f"{failed} calls failed: this measures nothing")
        return outcomes["ok"]

    def close(self) -> None:
        """Nothing stays between the runs."""
