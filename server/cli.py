"""The command line: `faircall serve | call | stats | users | explain | reload | ...`.

Each command imports what it needs when it runs, so that `faircall call` does not load the server.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from .. import __version__
from .cli_admin import reload_settings, stats
from .cli_call import call
from .cli_cancel import cancel
from .cli_demo import demo
from .cli_doctor import doctor
from .cli_more import MoreCommands
from .cli_openrpc import openrpc
from .cli_options import (
    DocumentsSettings,
    Exit,
    config_options,
    fail,
    setting_option,
    settings_from,
    source_of,
)
from .cli_throttle import throttle
from .cli_users import dump, explain, top, users
from .supervisor.blas import limit_blas_threads


@click.group(cls=MoreCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="faircall")
def cli() -> None:
    """Serve Python functions as JSON-RPC 2.0, fair to every caller."""


for command in (
    call,
    stats,
    users,
    explain,
    dump,
    top,
    reload_settings,
    throttle,
    cancel,
    demo,
    doctor,
    openrpc,
):
    cli.add_command(command)


@cli.command(epilog="`faircall check-config --help` lists every setting.")
@click.argument("target", metavar="MODULE:SERVICE")
@setting_option("--bind", "server.bind", "ADDRESS", multiple=True)
@setting_option("--handlers", "handlers.count", "N")
@setting_option("--readers", "server.readers", "N")
@setting_option("--trust-loopback", "identity.trust-loopback", "", is_flag=True, default=None)
@setting_option("--log-format", "log.format", "text|json")
@setting_option("--log-level", "log.level", "LEVEL")
@config_options
@click.pass_context
def serve(ctx: click.Context, /, target: str, **_: Any) -> None:
    """Serve the functions of MODULE:SERVICE until a signal ends it.

    MODULE is an importable name or a path ending in .py; SERVICE is `service` if left out.
    SIGTERM and Ctrl-C let the calls in flight finish; a second one stops at once, and if that cuts
    calls off, the exit code is 1. Exit code 2: it cannot start.
    """
    if not sys.platform.startswith("linux"):
        fail(f"serve needs Linux; this is {sys.platform}", Exit.USAGE)
    settings = settings_from(ctx)
    limit_blas_threads(settings.handlers.blas_threads)  # before anything imports numpy
    from .supervisor.serve import serve as run

    ctx.exit(run(settings, target, source=source_of(ctx)))


@cli.command("check-config", cls=DocumentsSettings)
@click.option("--effective", is_flag=True, help="Also the defaults: the value of every setting.")
@config_options
@click.pass_context
def check_config(ctx: click.Context, /, effective: bool, **_: Any) -> None:
    """Check the configuration and print each value with where it came from.

    What is printed is itself a configuration file.
    """
    settings = settings_from(ctx)
    from .settings.show import toml_lines

    for line in toml_lines(settings, defaults=effective):
        click.echo(line)
    for note in settings.notes:
        click.echo(f"note: {note}", err=True)
    click.echo("the configuration is valid", err=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: that of the process) and return the exit code."""
    try:
        cli.main(args=None if argv is None else list(argv), prog_name="faircall")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
