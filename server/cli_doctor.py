"""`faircall doctor`: what of this machine and these settings stands in the way."""

from __future__ import annotations

import sys
from typing import Any

import click

from .cli_admin import json_option
from .cli_options import Exit, config_options, fail, settings_from


@click.command()
@config_options
@json_option
@click.pass_context
def doctor(ctx: click.Context, /, as_json: bool, **_: Any) -> None:
    """Look at the machine, this Python and the configuration, and say what to do.

    Nothing is changed. Exit codes: 0 all is well, or could be better; 1 something will not work.
    """
    if not sys.platform.startswith("linux"):
        fail(f"serve needs Linux; this is {sys.platform}", Exit.RPC_ERROR)
    settings = settings_from(ctx)
    import json

    from .doctor.doctor import examine, is_fatal
    from .doctor.findings import Patient, lines
    from .doctor.findings import as_json as plain

    found = examine(Patient(settings))
    if as_json:
        click.echo(json.dumps({"works": not is_fatal(found), "findings": plain(found)}))
    else:
        for line in lines(found):
            click.echo(line)
    ctx.exit(Exit.RPC_ERROR if is_fatal(found) else Exit.OK)
