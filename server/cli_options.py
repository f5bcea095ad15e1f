"""What the commands of `faircall` have in common: exit codes, failures, flags for settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from .config import Settings
    from .settings.load import Source

Command = TypeVar("Command", bound=Callable[..., Any])


class Exit(IntEnum):
    """The exit codes; 75 is EX_TEMPFAIL of sysexits.h: try again later."""

    OK = 0
    RPC_ERROR = 1
    ALARM = 1  # of `faircall stats --check`
    USAGE = 2
    NO_CONNECTION = 3
    DEADLINE = 4
    BUSY = 75
    INTERRUPTED = 130


def fail(message: str, code: Exit, *, prefix: str = "faircall: ") -> NoReturn:
    """Ends the command with one line on stderr and the exit code `code`."""
    click.echo(f"{prefix}{message}", err=True)
    raise SystemExit(code)


class SettingOption(click.Option):
    """A flag for the setting `key`: its text is read, checked and explained by the declaration."""

    def __init__(self, *args: Any, key: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.key = key

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from .settings.catalogue import OWN
        from .settings.reference import default_text

        declared = OWN[self.key]
        default = default_text(declared, declared.default).replace("`", "")
        self.help = f"{declared.doc}  [default: {default}]"
        return super().get_help_record(ctx)


def setting_option(flag: str, key: str, metavar: str, **how: Any) -> Callable[[Command], Command]:
    return click.option(flag, cls=SettingOption, key=key, metavar=metavar, **how)


def config_options(command: Command) -> Command:
    """`--config` and `--set`, which go with every command that reads the configuration."""
    add_set = click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set anything: --set ipc.8020.backoff.enable=false. May be repeated.",
    )
    add_config = click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="A TOML file, or a Hadoop core-site.xml.  [default: $FAIRCALL_CONFIG]",
    )
    return add_config(add_set(command))


def settings_from(ctx: click.Context) -> Settings:
    """The settings by the flags of the command that runs, the environment and the file."""
    from .settings.declaration import ConfigError

    try:
        return source_of(ctx).read()
    except ConfigError as error:
        fail(str(error), Exit.USAGE)


def source_of(ctx: click.Context) -> Source:
    """Where the command that runs has its settings from."""
    from .settings.load import Source

    return Source(flags_of(ctx), dict(os.environ), ctx.params.get("config"))


def flags_of(ctx: click.Context) -> dict[str, tuple[object, str]]:
    """Absolute key to (value, flag) of every setting that the command line gives."""
    flags: dict[str, tuple[object, str]] = {}
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if isinstance(option, SettingOption) and value not in (None, ()):
            given = list(value) if isinstance(value, tuple) else value
            flags[option.key] = (given, option.opts[0])
    for assignment in ctx.params.get("assignments", ()):
        key, equals, text = assignment.partition("=")
        if not equals:
            raise click.BadParameter(f"{assignment!r}: write KEY=VALUE", param_hint="--set")
        if key in flags:
            raise click.BadParameter(f"{key}: {flags[key][1]} sets it, too", param_hint="--set")
        flags[key] = (text, "--set")
    return flags


class DocumentsSettings(click.Command):
    """A command whose help ends with every setting there is."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from .config import SECTIONS
        from .config_ipc import GROUPS
        from .settings.declaration import settings_of

        tables = [(f"[{name}]", [fields]) for name, fields in SECTIONS.items()]
        tables.append(("[ipc.PORT], or [ipc] for all ports", list(GROUPS.values())))
        for head, parts in tables:
            rows = [(s.key, s.doc) for part in parts for s in settings_of(part).values()]
            if rows:
                with formatter.section(head):
                    formatter.write_dl(rows)
