"""`faircall throttle set | get | remove | explain`: rates of a running daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .cli_admin import admin_option, ask, json_option

PATIENCE_S = 90.0  # a janitor that has to be replaced takes some seconds


@click.group()
def throttle() -> None:
    """Look at the limits of a running daemon, and change them.

    What is set goes before what its file says, is in force for the next call, and is kept over a
    restart where throttle.state-file is set.
    """


def _about(command: Any) -> Any:
    """What a rate is about: its line, or a level and names."""
    for option in (
        click.option(
            "--if-version", "version", type=int, metavar="N", help="Only if it is in force."
        ),
        click.option("--of", "methods", multiple=True, metavar="M", help="Of a resource; repeat."),
        click.option("--resource", metavar="NAME"),
        click.option("--service", metavar="NAME"),
        click.option("--caller", metavar="NAME"),
        click.option("--method", metavar="NAME"),
        click.option("--level", metavar="LEVEL", help="server|service|resource|method|caller"),
        click.argument("rate", required=False, metavar="[LINE]"),
    ):
        command = option(command)
    return command


@throttle.command("set")
@_about
@click.option("--calls", metavar="N|none|blocked", help="Calls per period.")
@click.option("--bytes", metavar="N", help="Bytes per period.")
@click.option("--seconds", "handler_s", type=float, metavar="S", help="Handler time per period.")
@click.option("--running", metavar="N", help="Calls that may run at once.")
@click.option("--period", "period_s", metavar="S", help="Length of a period in seconds.")
@click.option("--max-debt", "max_debt_periods", metavar="N", help="Most periods that are owed.")
@click.option("--relative", is_flag=True, help="On top of the average arrivals.")
@admin_option
@json_option
def set_rate(socket: Path | None, as_json: bool, **asked: Any) -> None:
    """Set a limit: by a level and its names, or by a line as in throttle.rates.

    \b
    faircall throttle set --level method --method resize --calls 100
    faircall throttle set --level caller --method resize --caller ann --calls blocked
    faircall throttle set 'each caller: calls=200 period-s=10'
    """
    answer = ask(socket, "faircall.set_dispatch_rate", _given(asked), PATIENCE_S)
    _show(answer, as_json, "set" if answer["changed"] else "set already")


@throttle.command("remove")
@_about
@admin_option
@json_option
def remove_rate(socket: Path | None, as_json: bool, **asked: Any) -> None:
    """Take back what was set: what the file says counts again."""
    answer = ask(socket, "faircall.remove_dispatch_rate", _given(asked), PATIENCE_S)
    _show(answer, as_json, "removed")


@throttle.command("get")
@admin_option
@json_option
def get_rates(socket: Path | None, as_json: bool) -> None:
    """All limits, with where each comes from."""
    from .admin.text import as_text

    click.echo(as_text(ask(socket, "faircall.get_dispatch_rate", {}, PATIENCE_S), as_json))


@throttle.command()
@click.argument("method")
@click.argument("caller")
@admin_option
@json_option
def explain(method: str, caller: str, socket: Path | None, as_json: bool) -> None:
    """Which limits a call of METHOD by CALLER falls under, and when they let it go."""
    from .admin.text import as_text

    about = {"method": method, "caller": caller}
    found = ask(socket, "faircall.explain_dispatch_rate", about, PATIENCE_S)
    click.echo(as_text(found, as_json))


def _given(asked: dict[str, Any]) -> dict[str, Any]:
    """Without the options that were left out."""
    given = {name: value for name, value in asked.items() if value not in (None, (), False)}
    if "methods" in given:
        given["methods"] = list(given["methods"])
    return given


def _show(answer: dict[str, Any], as_json: bool, done: str) -> None:
    from .admin.text import as_text

    if as_json:
        click.echo(as_text(answer, as_json))
    else:
        click.echo(f"{done}: {answer['rate']} (version {answer['version']})")
