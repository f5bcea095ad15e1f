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
@click.option("--check", is_flag=True, help="Only alarms; the exit code is 1 while one is active.")
def stats(socket: Path | None, as_json: bool, check: bool) -> None:
    """Print what a running daemon has counted, and its alarms.

    With --check the exit code is 0 without an alarm, 1 while one is active, 3 if no daemon answers.
    """
    from .admin.alarm_text import alarm_lines
    from .admin.client import fetch_stats
    from .admin.text import as_text

    place = admin_socket(socket)
    try:
        counted = fetch_stats(str(place))
    except OSError as error:
        reason = error.strerror or str(error)
        fail(f"no daemon answers at {place}: {reason}", Exit.NO_CONNECTION)
    if as_json and not check:
        click.echo(as_text(counted, as_json))
        return
    alarms = counted.pop("alarms", [])
    if as_json:
        click.echo(as_text({"alarms": alarms}, as_json))
    else:
        if not check:
            click.echo(as_text(counted, as_json))
        for line in alarm_lines(alarms, "no alarm" if check else ""):
            click.echo(line)
    if check and alarms:
        raise SystemExit(Exit.ALARM)


@click.command("reload")
@admin_option
@click.option("--verbose", is_flag=True, help="Also the keys that are unchanged.")
@click.option("--workers", is_flag=True, help="Replace the handlers: new code, the same settings.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds to wait for --workers; the daemon goes on after them.",
)
@json_option
def reload_settings(
    socket: Path | None, verbose: bool, workers: bool, timeout_s: float, as_json: bool
) -> None:
    """Have a running daemon read its settings again, and print what that changes.

    It reads what it read at its start: the file, FAIRCALL_* and the flags as they were then. All
    live settings are in force when this ends; without any error, or none of them is.

    With --workers settings stay, and each handler is followed by one that imports the service anew.
    If the first of them fails to start, all old ones go on, and the exit code is 1.
    """
    from .admin.client import AdminError, refresh_call_queue
    from .admin.reload_text import reload_lines
    from .admin.text import as_text

    place = admin_socket(socket)
    if workers:
        replace_workers(place, timeout_s, as_json)
        return
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


def replace_workers(place: Path, timeout_s: float, as_json: bool) -> None:
    """All handlers, one by one; a failure ends the command."""
    from .admin.client import AdminError, reload_workers
    from .admin.text import as_text

    try:
        done = reload_workers(str(place), timeout_s)
    except AdminError as error:
        fail(f"the handlers were not replaced: {error.strerror}", Exit.RPC_ERROR)
    except TimeoutError:
        fail(f"not done after {timeout_s:g} s; the daemon's log says how it ends", Exit.DEADLINE)
    except OSError as error:
        fail(f"no daemon answers at {place}: {error.strerror or error}", Exit.NO_CONNECTION)
    if as_json:
        click.echo(as_text(done, as_json))
    else:
        seconds = done["took_ms"] / 1000
        click.echo(f"replaced: {done['replaced']} handlers in {seconds:.1f} s")


def ask(
    socket: Path | None,
    method: str,
    params: Mapping[str, Any],
    timeout_s: float,
    refusal: str = "nothing was changed: ",
) -> Any:
    """The daemon's answer; what it refuses, and that nobody answers, ends the command."""
    from .admin.client import AdminError, call_admin

    place = admin_socket(socket)
    try:
        return call_admin(str(place), method, timeout_s, params)
    except AdminError as error:
        fail(f"{refusal}{error.strerror}", Exit.USAGE)
    except OSError as error:
        fail(f"no daemon answers at {place}: {error.strerror or error}", Exit.NO_CONNECTION)


def admin_socket(given: Path | None) -> Path:
    """The admin socket that was named, or that of the only daemon; an address is none."""
    if given is None:
        return only_admin_socket()
    text = str(given)
    if text.startswith(("tcp:", "http:", "https:", "unix:")):
        text = text.replace(":/", "://", 1) if not text.startswith("unix:") else text
        fail(
            f"{text} is where clients call; --to wants the daemon's admin socket, a path"
            " (admin.socket in its settings; left out, it is found where one daemon runs)",
            Exit.USAGE,
        )
    return given


def only_admin_socket() -> Path:
    """Of several, those that killed daemons left behind do not count."""
    import os

    from .acceptor.unix_listener import somebody_listens
    from .settings.runtime_directory import admin_sockets, runtime_directory

    directory = runtime_directory(os.environ, os.geteuid())
    found = admin_sockets(directory)
    if len(found) > 1:
        found = [path for path in found if somebody_listens(str(path))]
    if len(found) == 1:
        return found[0]
    if not found:
        fail(f"no daemon's admin socket in {directory}", Exit.NO_CONNECTION)
    names = ", ".join(str(path) for path in found)
    fail(f"several daemons run; say --to one of {names}", Exit.USAGE)
