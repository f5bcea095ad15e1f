"""Settings as TOML, each value with where it came from: what `faircall check-config` prints."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import SECTIONS, Settings
from ..config_ipc import GROUPS
from .declaration import settings_of

COMMENT_COLUMN = 48


def toml_lines(settings: Settings, *, defaults: bool) -> Iterator[str]:
    """A configuration file that says the same; without `defaults` only what was written."""
    for section in SECTIONS:
        yield from _table(section, [getattr(settings, section)], settings, defaults)
        if section == "handlers":
            for name, group in settings.groups.items():
                yield from _table(f"handlers.{name}", [group], settings, defaults)
    for number, port in settings.ports.items():
        groups = [getattr(port, group) for group in GROUPS]
        yield from _table(f"ipc.{number}", groups, settings, defaults)


def _table(name: str, groups: list[object], settings: Settings, defaults: bool) -> Iterator[str]:
    """The head of the table `name`, and a line for each field of `groups`; nothing if none."""
    lines = [line for group in groups for line in _lines(name, group, settings, defaults)]
    if lines:
        yield f"[{name}]"
        yield from lines
        yield ""


def _lines(name: str, group: object, settings: Settings, defaults: bool) -> Iterator[str]:
    for field, declared in settings_of(type(group)).items():
        origin = settings.origins[f"{name}.{declared.key}"]
        if defaults or not origin.startswith("default"):
            assignment = f"{declared.key} = {declared.kind.show(getattr(group, field))}"
            yield f"{assignment:<{COMMENT_COLUMN}}  # {origin}"
