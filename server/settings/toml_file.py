"""A TOML file as entries: tables and dotted keys become absolute keys, with their lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .catalogue import is_whole
from .declaration import ConfigError
from .layers import Entry

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")


def read_toml(path: Path) -> list[Entry]:
    """The entries in the order of the file; ConfigError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}{_hint(str(error))}") from None
    return entries_of(tables, line_numbers(text), path)


def entries_of(tables: Mapping[str, Any], lines: Mapping[str, int], path: Path) -> list[Entry]:
    entries: dict[str, Entry] = {}
    for key, value in _leaves(tables, ""):
        place = f"{path}:{lines[key]}" if key in lines else str(path)
        if key in entries:
            raise ConfigError(f"{place}: {key} is set twice")
        entries[key] = Entry(key, value, place)
    return list(entries.values())


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    """Absolute keys and values; an empty table is a value, so that an empty section is seen, and
    so is one that a key has for its value."""
    for name, value in table.items():
        if isinstance(value, dict) and value and not is_whole(f"{prefix}{name}"):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def line_numbers(text: str) -> dict[str, int]:
    """Absolute key to the first line that sets it, and table to the line of its head."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _TABLE.match(line):
            table = _joined(head[1]) + "."
            lines.setdefault(table[:-1], number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault(table + _joined(assignment[1]), number)
    return lines


def _joined(dotted: str) -> str:
    return ".".join(part.strip("\"'") for part in re.findall(_PART, dotted))


def _hint(error: str) -> str:
    """Two of Hadoop's names begin with another of them, which TOML's dotted keys cannot express."""
    if error.startswith(("Cannot overwrite", "Cannot mutate", "Cannot declare")):
        return ' (a key that begins with another key needs quotes: "server.log.slow.rpc" = true)'
    return ""
