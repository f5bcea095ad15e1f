"""`faircall cancel`: an operator ends the calls of one user."""

from __future__ import annotations

from pathlib import Path

import click

from .cli_admin import admin_option, ask, json_option
from .cli_options import Exit, fail

PATIENCE_S = 30.0


@click.command()
@click.option("--user", required=True, metavar="NAME", help="Whose calls.")
@click.option("--context", metavar="TEXT", help="Only those with this caller context.")
@click.option("--method", metavar="NAME", help="Only those of this method.")
@admin_option
@json_option
def cancel(
    user: str, context: str | None, method: str | None, socket: Path | None, as_json: bool
) -> None:
    """Cancel the calls of a user: what waits is dropped, what runs is abandoned.

    Its clients are answered -32051 at once, and the result of what runs is dropped. Calls that come
    later are not affected: `faircall throttle set --level caller` is for those.
    """
    about = {"user": user, "context": context, "method": method}
    given = {name: value for name, value in about.items() if value is not None}
    found = ask(socket, "faircall.cancel", given, PATIENCE_S)
    if as_json:
        from .admin.text import as_text

        click.echo(as_text(found, as_json))
    else:
        click.echo(f"cancelled: {found['waiting']} waiting, {found['running']} running")
    if found["unanswered"]:
        fail(f"no answer from {', '.join(found['unanswered'])}: try again", Exit.BUSY)
