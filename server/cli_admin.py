"""The commands that ask a running daemon: `stats`, `reload`, and what others of them share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .cli_options import Exit, fail

admin_option = click.option(
    "--to",
    "socket",
    type=click.Path(path_type=Path),
    envvar="FAIRCALL_ADMIN",
    help="Its admin socket.  [default: $FAIRCALL_ADMIN, else that of the only daemon that runs]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@click.command()
@admin_option
@json_option
def stats(socket: Path | None, as_json: bool) -> None:
    """Print what a running daemon has counted."""
    from .admin.client import fetch_stats
    from .admin.text import as_text

    place = socket or only_admin_socket()
    try:
        counted = fetch_stats(str(place))
    except OSError as error:
        reason = error.strerror or str(error)
        fail(f"no daemon answers at {place}: {reason}", Exit.NO_CONNECTION)
    click.echo(as_text(counted, as_json))


@click.command("reload")
@admin_option
@click.option("--verbose", is_flag=True, help="Also the keys that are unchanged.")
@json_option
def reload_settings(socket: Path | None, verbose: bool, as_json: bool) -> None:
    """Have a running daemon read its settings again, and print what that changes.

    It reads what it read at its start: the file, FAIRCALL_* and the flags as they were then. All
    live settings are in force when this ends; without any error, or none of them is.
    """
    from .admin.client import AdminError, refresh_call_queue
    from .admin.reload_text import reload_lines
    from .admin.text import as_text

    place = socket or only_admin_socket()
    try:
        changed = refresh_call_queue(str(place))
    except AdminError as error:
        fail(f"nothing was changed: {error.strerror}", Exit.USAGE)
    except OSError as error:
        fail(f"no daemon answers at {place}: {error.strerror or error}", Exit.NO_CONNECTION)
    if as_json:
        click.echo(as_text(changed, as_json))
        return
    for line in reload_lines(changed, verbose):
        click.echo(line)


def ask(socket: Path | None, method: str, params: Mapping[str, Any], timeout_s: float) -> Any:
    """The daemon's answer; what it refuses, and that nobody answers, ends the command."""
    from .admin.client import AdminError, call_admin

    place = socket or only_admin_socket()
    try:
        return call_admin(str(place), method, timeout_s, params)
    except AdminError as error:
        fail(f"nothing was changed: {error.strerror}", Exit.USAGE)
    except OSError as error:
        fail(f"no daemon answers at {place}: {error.strerror or error}", Exit.NO_CONNECTION)


def only_admin_socket() -> Path:
    import os

    from .settings.runtime_directory import admin_sockets, runtime_directory

    directory = runtime_directory(os.environ, os.geteuid())
    found = admin_sockets(directory)
    if len(found) == 1:
        return found[0]
    if not found:
        fail(f"no daemon's admin socket in {directory}", Exit.NO_CONNECTION)
    names = ", ".join(str(path) for path in found)
    fail(f"several daemons run; say --to one of {names}", Exit.USAGE)
