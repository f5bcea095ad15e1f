"""Commands of packages that the server does not import, by the entry points `faircall.commands`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

import click

GROUP = "faircall.commands"


@cache
def _more() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


class MoreCommands(click.Group):
    """A group that also has the commands of installed packages; its own come first.

    They are looked for when a name is none of its own, and imported when they are called.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_more()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in _more():
            return own
        found = _more()[cmd_name].load()
        return found if isinstance(found, click.Command) else None
