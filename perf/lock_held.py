"""For which part of the time the queue's lock is held while a server does as much as it can.

    python -m faircall.perf.lock_held [--seconds 5] [--handlers 2]

Closed loops of `echo`, 64 connections with 1 and with 16 calls in flight each. A process that loses
its processor while it holds the lock goes on holding it, so p99 and the longest hold depend on how
many processes share the processors. Exit code 1 if the lock is held for more than a fifth.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ..client.address import Address
from ..server.demo.server import running_server
from .bench.histogram import Histogram
from .bench.load import run_plan
from .bench.plan import Group, Plan, Request
from .rows import SERVICE, Row, table
from .timed_lock import read

CONNECTIONS = 64
DEPTHS = (1, 16)
MOST = 0.20
WARM_UP_S = 1.0


def rows(seconds: float, handlers: int, depths: Sequence[int] = DEPTHS) -> list[Row]:
    """A row for each depth, of one server each."""
    return [_row(depth, seconds, handlers) for depth in depths]


def held_share(row: Row) -> float:
    """The part of the time, 0 to 1."""
    return float(str(row["held %"])) / 100


def _row(depth: int, seconds: float, handlers: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="faircall-held-") as name:
        program = ("-m", "faircall.perf.timed_lock", name)
        with running_server(handlers, {}, SERVICE, program=program) as server:
            address = Address(*server.address)
            _load(address, depth, WARM_UP_S)
            before, began = read(Path(name)), time.monotonic()
            rate = _load(address, depth, seconds)
            held, took_s = _since(before, read(Path(name))), time.monotonic() - began
    return {
        "in flight": CONNECTIONS * depth,
        "calls/s": round(rate),
        "holds/s": round(held.count / took_s),
        "held %": 100 * held.total / 1e9 / took_s,
        "mean us": held.mean() / 1e3,
        "p50 us": held.quantile(0.5) / 1e3,
        "p99 us": held.quantile(0.99) / 1e3,
        "p99.9 us": held.quantile(0.999) / 1e3,
    }


def _since(before: Histogram, after: Histogram) -> Histogram:
    found = Histogram(after.count - before.count, after.total - before.total, after.largest)
    found.buckets = after.buckets - before.buckets
    return found


def _load(address: Address, depth: int, seconds: float) -> float:
    """Calls per second."""
    echo = Request("echo", '["hello"]')
    group = Group(name="main", requests=[echo], connections=CONNECTIONS, depth=depth)
    found = run_plan(Plan(address=address, groups=[group], seconds=seconds), print)
    return found.groups[0].answered / seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and whether the share is as it should be."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.lock_held")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load for each row")
    parser.add_argument("--handlers", type=int, default=2)
    options = parser.parse_args(arguments)
    found = rows(options.seconds, options.handlers)
    print(table(found))
    most = max(map(held_share, found))
    holds = most <= MOST
    verdict = "holds" if holds else "DOES NOT HOLD"
    print(f"{verdict}: the lock is held for at most {MOST:.0%} of the time ({most:.1%})")
    sys.exit(not holds)


if __name__ == "__main__":
    main()
