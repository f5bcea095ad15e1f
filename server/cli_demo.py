"""`faircall demo`: what the fair queue, and the alarms, are good for, on real servers."""

from __future__ import annotations

import click

INCIDENT_NAMES = ("small-calls", "retry-loop", "listings", "heartbeats")


@click.group(invoke_without_command=True)
@click.pass_context
def demo(ctx: click.Context) -> None:
    """A heavy and a light user: first a plain queue, then the fair one, and what each waits."""
    if ctx.invoked_subcommand is None:
        from .demo.demo import run_demo

        ctx.exit(run_demo())


@demo.command()
@click.argument("name", type=click.Choice(INCIDENT_NAMES))
@click.option("--seed", default=1, show_default=True, help="Who does it, and how hard.")
@click.option("--alarm-only", is_flag=True, help="Only the alarm, on the fair queue.")
@click.option("--seeds", default=20, show_default=True, help="With --alarm-only: how many, from 1.")
@click.pass_context
def incident(ctx: click.Context, name: str, seed: int, alarm_only: bool, seeds: int) -> None:
    """Replay an incident with FIFO and with the fair queue, and end it by what the alarm prints.

    The exit code is 1 if the alarm did not name the right user, job and method within a second.
    """
    from .demo.incident import run_alarms, run_incident

    if alarm_only:
        ctx.exit(run_alarms(name, range(1, seeds + 1)))
    ctx.exit(run_incident(name, seed))
