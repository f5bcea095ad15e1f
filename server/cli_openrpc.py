"""`faircall openrpc`: what a service offers, for documentation and for generated clients."""

from __future__ import annotations

import click

from .cli_options import Exit, fail


@click.command()
@click.argument("target", metavar="MODULE:SERVICE")
def openrpc(target: str) -> None:
    """Print the OpenRPC document of MODULE:SERVICE.

    It is what `rpc.discover` answers when the service is served. MODULE is imported, its start
    hooks do not run.
    """
    import orjson

    from ..workers.errors import ServiceError
    from ..workers.load import load_service
    from ..workers.openrpc import document

    try:
        found = document(load_service(target))
    except ServiceError as error:
        fail(str(error), Exit.USAGE)
    click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
