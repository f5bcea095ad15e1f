"""`faircall demo`: how long a light user waits beside a heavy one, in a plain and in a fair queue.

Two real servers, one after the other: one with the plain queue and the rules that go with it (no
scheduler, order of arrival, no back-off), one with the defaults. Both have the same capacity and
handlers and get the same load (`demo_load`), and every figure that is printed was measured.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from ..settings.processors import available
from .load import (
    CALL_MS,
    HEAVY_CONNECTIONS,
    LIGHT_EVERY_NS,
    SECOND_NS,
    Load,
    LoadFailed,
    Measured,
)
from .server import DemoServer, NotServing, running_server

MEASURED_S = 10.0
WARM_UP_S = 2.0
MOST_HANDLERS = 2  # few, so that calls wait for them and not for the generator
NO_DIFFERENCE = 1.5  # ratio below which we claim nothing
CAPACITY = 4096  # of the plain queue, as is the fair one's default

# Four runs of each in turn, on two shared processors, gave 960 to 1,320 heavy calls/s with the
# plain queue and 870 to 1,540 with the fair one: a pair says nothing about what a queue costs.
NOTE = (
    "Measured once each, one after the other: heavy calls/s also follow what else the machine does."
)

FIFO: Mapping[str, str] = {
    "ipc.0.callqueue.impl": "LinkedBlockingQueue",
    "ipc.0.callqueue.total-capacity": str(CAPACITY),
    "ipc.0.backoff.enable": "false",
}
FAIR: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Trial:
    """One queue and what was measured with it; `levels` of the two users at the end."""

    queue: str
    measured: Measured
    levels: Mapping[str, int]

    def quantile_ms(self, part: float) -> float:
        """The latency that `part` of the light user's calls did not exceed (nearest rank)."""
        return quantile(self.measured.light_ns, part) / 1e6

    @property
    def heavy_per_s(self) -> float:
        return self.measured.heavy_calls / self.measured.seconds


def run_demo() -> int:
    """Run it and print it; the exit status."""
    if not sys.platform.startswith("linux"):
        click.echo(f"faircall: demo needs Linux; this is {sys.platform}", err=True)
        return 2
    processors = available().count
    handlers = min(MOST_HANDLERS, processors)
    click.echo(introduction(handlers, processors))
    try:
        fifo = try_queue("one queue, first in first out", handlers, FIFO)
        fair = try_queue("the fair call queue", handlers, FAIR)
    except (LoadFailed, NotServing, OSError) as error:
        click.echo(f"faircall: the demonstration failed: {error}", err=True)
        return 1
    click.echo("\n".join(["", *table([fifo, fair]), "", conclusion(fifo, fair), "", NOTE]))
    return 0


def try_queue(what: str, handlers: int, settings: Mapping[str, str]) -> Trial:
    """Serve, load and measure. LoadFailed, NotServing, OSError."""
    click.echo(f"measuring {WARM_UP_S + MEASURED_S:.0f} s: {what} ...")
    with running_server(handlers, settings) as server:
        load = Load(*server.address)
        try:
            measured = load.run(MEASURED_S, WARM_UP_S)
            return _trial(server, measured)
        finally:
            load.close()


def _trial(server: DemoServer, measured: Measured) -> Trial:
    stats = server.stats()
    levels = {user["user"]: user["level"] for user in stats["users"]["top"]}
    return Trial(stats["queue"]["impl"], measured, levels)


def quantile(values: Sequence[int], part: float) -> int:
    """The smallest of `values` that at least `part` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(part * 1000) // 1000) - 1)]


def introduction(handlers: int, processors: int) -> str:
    return (
        f"A heavy user keeps {HEAVY_CONNECTIONS} connections busy; a light user makes"
        f" {SECOND_NS // LIGHT_EVERY_NS} calls a second.\n"
        f"Every call takes {CALL_MS} ms of processor time, in {_count(handlers, 'handler')};"
        f" the load generator shares {_count(processors, 'processor')} with them."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def table(trials: Sequence[Trial]) -> list[str]:
    """A line for each queue; latencies are the light user's, from when each call was due."""
    rows: list[tuple[str, ...]] = [
        ("queue", "light p50", "light p99", "light max", "light calls", "heavy calls/s")
    ]
    for trial in trials:
        times = [f"{trial.quantile_ms(part):.1f} ms" for part in (0.5, 0.99, 1.0)]
        light = str(len(trial.measured.light_ns))
        rows.append((trial.queue, *times, light, f"{trial.heavy_per_s:.0f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(map(str.rjust, row, widths)) for row in rows]


def conclusion(fifo: Trial, fair: Trial) -> str:
    """What the table shows, in one sentence."""
    better = fifo.quantile_ms(0.99) / max(fair.quantile_ms(0.99), 1e-6)
    if better < NO_DIFFERENCE:
        return (
            f"This run shows no difference worth the name (p99 {better:.1f} times shorter): was the"
            " machine busy with something else?"
        )
    levels = fair.levels.get("light", 0), fair.levels.get("heavy", 0)
    return (
        "In the plain queue the light user waits behind all that the heavy user has sent; in the"
        f" fair queue\n(light: level {levels[0]}, heavy: level {levels[1]}) its 99th percentile was"
        f" {better:.0f} times shorter in this run."
    )
