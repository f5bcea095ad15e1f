"""What a scrape of /metrics costs, by how many users are known.

    python -m faircall.perf.scrape [--users 100 10000] [--rounds 20] [--methods 30]

A port that nobody serves, with costs and calls of every user and times of every method; its metrics
are collected and written as OpenMetrics. CPU and elapsed milliseconds: the best and the median.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..server.admin.metrics import Metrics
from ..server.admin.stats import PortStats
from ..server.janitor.watching import Watching
from ..server.port import Port, open_ports
from ..server.settings.load import load_settings

HANDLERS, LEVELS = 4, 4
SERVICE_NS = 2_000_000


@contextmanager
def known_users(users: int, methods: int) -> Iterator[Port]:
    """A port to which `users` have called `methods`."""
    flags = {
        "server.bind": ("tcp://127.0.0.1:0", "scrape"),
        "limits.identities": (max(64, users + users // 8), "scrape"),
        "handlers.count": (HANDLERS, "scrape"),
    }
    (port,) = open_ports(load_settings(flags, {}))
    try:
        _fill(port, users, methods)
        yield port
    finally:
        port.close()


def _fill(port: Port, users: int, methods: int) -> None:
    shared = port.shared
    reader = shared.index("reader", 0)
    for number in range(users):
        row = shared.names.identity(f"user-{number}", 0)
        shared.columns.charge(reader, row, 1 + number)
    Watching(shared).choose(shared.columns.cost_totals().astype(np.int64))
    rows = [shared.names.method(f"method_{number}", 0, 0) for number in range(methods)]
    for handler in range(HANDLERS):
        histograms = shared.histograms.of_handler(handler)
        for number, row in enumerate(rows):
            shared.columns.ran(handler, row, SERVICE_NS, failed=False)
            histograms.ran(row, number % LEVELS, 1, SERVICE_NS << number % 8, SERVICE_NS)


def scrapes(port: Port, rounds: int) -> tuple[list[float], list[float], int]:
    """(CPU ms of each, elapsed ms of each, bytes)."""
    metrics = Metrics([port], [PortStats(port, time.monotonic_ns())])
    cpu_ms, elapsed_ms, size = [], [], 0
    for _ in range(rounds):
        cpu_ns, began_ns = time.thread_time_ns(), time.perf_counter_ns()
        size = len(metrics.text(openmetrics=True))
        elapsed_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
        cpu_ms.append((time.thread_time_ns() - cpu_ns) / 1e6)
    return cpu_ms, elapsed_ms, size


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--users", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--methods", type=int, default=30)
    options = parser.parse_args()
    print("  users   CPU ms best  median   elapsed ms best  median     KiB")
    for users in options.users:
        with known_users(users, options.methods) as port:
            cpu_ms, elapsed_ms, size = scrapes(port, options.rounds)
        elapsed = f"{min(elapsed_ms):>15.1f}  {statistics.median(elapsed_ms):>6.1f}"
        print(
            f"{users:>7}   {min(cpu_ms):>11.1f}  {statistics.median(cpu_ms):>6.1f}"
            f"   {elapsed}  {size / 1024:>6.0f}"
        )


if __name__ == "__main__":
    main()
