"""What the fair queue does for a light user beside a heavy one, measured on real servers.

    python -m faircall.perf.fairness SCENARIO [--seconds S] [--repeats N]

    concurrency     a heavy user with 8 to 512 calls in flight
    first-second    256 connections of a user who was never seen before
    costs           callers of cheap, of long, and of locked calls
    minting         a user who takes another name for each call
    names           memory by how many names were seen: a fresh one for each call
    groups          a flood of a method that has handlers of its own, or that has not
    reload          other settings come into force while 50,000 calls wait
    throughput      calls per second, by those of a FIFO

Each scenario starts a server per row, loads it from this process (`generator`) and prints a table
of what it measured. On a machine with few processors the generator and the server share them: the
figures compare rows of one table, and are no limits of the server.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from . import concurrency, costs, first_second, groups, minting, reloading, throughput
from .rows import Row, table

SCENARIOS: Mapping[str, Callable[[float], Sequence[Row]]] = {
    "concurrency": concurrency.rows,
    "first-second": first_second.rows,
    "costs": costs.rows,
    "minting": minting.rows,
    "names": minting.memory_rows,
    "groups": groups.rows,
    "reload": reloading.rows,
    "throughput": throughput.rows,
}
SECONDS: Mapping[str, float] = {
    "concurrency": 12,
    "first-second": 3,
    "costs": 12,
    "minting": 15,
    "names": 180,
    "groups": 80,
    "reload": 8,
    "throughput": 30,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a scenario and print its table."""
    parser = argparse.ArgumentParser(prog="python -m faircall.perf.fairness")
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--seconds", type=float, default=0.0, help="of load for each row")
    parser.add_argument("--repeats", type=int, default=1, help="of all rows")
    options = parser.parse_args(arguments)
    seconds = options.seconds or SECONDS[options.scenario]
    rows = [row for _ in range(options.repeats) for row in SCENARIOS[options.scenario](seconds)]
    print(table(rows))


if __name__ == "__main__":
    main()
