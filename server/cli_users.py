"""The commands that say who does what: `users`, `explain`, `dump` and `top`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .cli_admin import admin_option, admin_socket, ask, json_option
from .cli_options import Exit, fail

TIMEOUT_S = 10.0
SORTS = ("share", "cost", "calls", "waiting", "refused")
DUMPS = ("queues", "requests", "levels", "handlers")
csv_option = click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values.")


@click.command()
@admin_option
@click.option("--top", default=20, show_default=True, help="How many users, one by one.")
@click.option("--sort", type=click.Choice(SORTS), default="share", show_default=True)
@json_option
@csv_option
def users(socket: Path | None, top: int, sort: str, as_json: bool, as_csv: bool) -> None:
    """Who does how much on a running daemon, and whether somebody overloads it."""
    from .admin.users_text import user_rows, users_lines

    found = ask(socket, "faircall.users", {"top": top, "sort": sort}, TIMEOUT_S, "")
    rows = [{"port": port["port"], **row} for port in found["ports"] for row in user_rows(port)]
    _print(found, users_lines(found), rows if as_csv else None, as_json)


@click.command()
@click.argument("user")
@admin_option
@json_option
def explain(user: str, socket: Path | None, as_json: bool) -> None:
    """Why USER has its level, what it calls, what it waits for, and what would change that."""
    from .admin.users_text import explain_lines

    found = ask(socket, "faircall.explain", {"user": user}, TIMEOUT_S, "")
    _print(found, explain_lines(found), None, as_json)


@click.command()
@click.argument("what", type=click.Choice(DUMPS))
@admin_option
@click.option("--most", default=1000, show_default=True, help="How many rows of each port.")
@json_option
@csv_option
def dump(what: str, socket: Path | None, most: int, as_json: bool, as_csv: bool) -> None:
    """Row by row: calls that wait (queues), all in flight (requests), levels or handlers."""
    from .admin.users_text import dump_lines

    found = ask(socket, "faircall.dump", {"what": what, "most": most}, TIMEOUT_S, "")
    rows = [{"port": port["port"], **row} for port in found["ports"] for row in port["rows"]]
    _print(found, dump_lines(found), rows if as_csv else None, as_json)


@click.command()
@admin_option
@click.option("--every", "every_s", default=1.0, show_default=True, help="Seconds between looks.")
@click.option("--sort", type=click.Choice(SORTS), default="share", show_default=True)
def top(socket: Path | None, every_s: float, sort: str) -> None:
    """Who does how much, live: sort, pause, and explain the user under the cursor."""
    try:
        from .admin.top_screen import TopScreen
    except ImportError as error:
        text = f"`faircall top` needs textual: pip install 'faircall[top]' ({error})"
        fail(text, Exit.USAGE)
    place = admin_socket(socket)
    ask(
        place, "faircall.ping", {}, TIMEOUT_S, ""
    )  # who cannot be reached is said before any screen
    TopScreen(str(place), max(0.2, every_s), sort).run()


def _print(found: Any, lines: Any, rows: list[dict[str, Any]] | None, as_json: bool) -> None:
    from .admin.text import as_text
    from .admin.users_text import as_csv

    if as_json:
        click.echo(as_text(found, as_json))
    elif rows is not None:
        click.echo(as_csv(rows))
    else:
        for line in lines:
            click.echo(line)
