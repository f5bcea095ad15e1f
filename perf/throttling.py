"""Whether dispatch throttling does what docs/pulsar.md says, measured on real servers.

    python -m faircall.perf.throttling SCENARIO

    exact       calls of each period, with 20 busy callers; --kills: while handlers are killed
    pacing      calls of any second where limits are paced
    neighbour   light calls beside a flood of a limited method
    overhead    limits that do not bite; --against: none, against another checkout
                (--of: of a third one, instead of this one)
    held        processor time of 10,000 calls that are held
    admitted    the three cases in which Pulsar's dispatch may go beyond a rate

Each prints a table and its claim, and exits with 1 if that does not hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from . import admitted, held_calls, limit_kept, neighbour, throttle_cost
from .pairs import LEAST_PAIRS
from .rows import Outcome, table

Command = Callable[..., None]
_CHECKOUT = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def main() -> None:
    """Measure dispatch throttling on real servers."""


def _seconds(default: float, help: str = "Of load.") -> Callable[[Command], Command]:
    return click.option("--seconds", type=float, default=default, show_default=True, help=help)


@main.command()
@_seconds(10)
@click.option("--kills", is_flag=True, help="Kill handlers meanwhile.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the kills.")
def exact(seconds: float, kills: bool, seed: int) -> None:
    """Calls of each period."""
    _show(limit_kept.killed(seconds, seed) if kills else limit_kept.exact(seconds))


@main.command()
@_seconds(10)
def pacing(seconds: float) -> None:
    """Calls of any second, paced."""
    _show(limit_kept.paced(seconds))


@main.command("neighbour")
@_seconds(9, "Alone, and as many beside the flood.")
def _neighbour(seconds: float) -> None:
    """Light calls beside a flood of a limited method."""
    _show(neighbour.neighbour(seconds))


@main.command()
@_seconds(0.05, "Of each of a pair.")
@click.option("--pairs", type=click.IntRange(LEAST_PAIRS), default=240, show_default=True)
@click.option("--starts", type=click.IntRange(1), default=3, show_default=True, help="Of servers.")
@click.option("--against", type=_CHECKOUT, help="Another checkout, after `make build/pkg`.")
@click.option("--of", "after", type=_CHECKOUT, help="The one to compare with it.")
def overhead(
    seconds: float, pairs: int, starts: int, against: Path | None, after: Path | None
) -> None:
    """Throughput with limits that do not bite, or with none against another checkout."""
    if against is None:
        _show(throttle_cost.overhead(seconds, pairs, starts))
    else:
        _show(throttle_cost.unused(against, after, seconds, pairs, starts))


@main.command()
@_seconds(10, "Of rest.")
def held(seconds: float) -> None:
    """Processor time of calls that are held."""
    _show(held_calls.held(seconds))


@main.command("admitted")
@_seconds(8, "Of load in each case.")
def _admitted(seconds: float) -> None:
    """Pulsar's three cases."""
    _show(admitted.admitted(seconds))


def _show(outcome: Outcome) -> None:
    """The table, and whether the claim holds; ends with 1 if not."""
    click.echo(table(outcome.rows))
    click.echo(f"{'holds' if outcome.holds else 'DOES NOT HOLD'}: {outcome.claim}")
    if not outcome.holds:
        sys.exit(1)


if __name__ == "__main__":
    main()
