"""The kinds of values that are lists: TOML lists, or text with commas between the elements.

An empty list of numbers counts as nothing written, as in Hadoop; an empty list of names is one.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from ...scheduling import parsing
from .kinds import UNSET, Kind, Reader, read_integer, read_number, read_text, show_text


def elements(raw: object) -> list[Any]:
    """What stands in a TOML list, or between the commas and line ends of a text."""
    if isinstance(raw, list):
        return raw
    return list(parsing.words(raw)) if isinstance(raw, str) else [raw]


def several(
    name: str, read: Reader, show: Callable[[Any], str], read_hadoop: Reader | None = None
) -> Kind:
    """A tuple of what `read` reads; none at all is `UNSET`."""

    def each(reader: Reader) -> Reader:
        return lambda raw: tuple(map(reader, elements(raw))) or UNSET

    def show_all(values: tuple[Any, ...]) -> str:
        return f"[{', '.join(map(show, values))}]"

    return Kind(name, each(read), show_all, read_hadoop and each(read_hadoop))


def read_decimal(raw: object) -> int:
    """An element of a list of integers: 32 bits, and no hexadecimal digits there, as Hadoop."""
    if isinstance(raw, str):
        try:
            return parsing.integers(raw)[0]
        except (ValueError, IndexError):
            raise ValueError("is not a list of integers") from None
    return read_integer(raw)


def read_percent(raw: object) -> float:
    """Percent to a fraction of 1; bounds are checked here, while it is a percentage."""
    percent = read_number(raw)
    if not 0 <= percent <= 100:
        raise ValueError("is not between 0 and 100 percent")
    return percent / 100


def read_percent_of_hadoop(raw: object) -> float:
    """An integer, of any size: 250 keeps everybody below this level."""
    return read_decimal(raw) / 100


def read_duration_ms(raw: object) -> int:
    """Milliseconds: a number of them, or text with a unit (ns us ms s m h d), rounded down."""
    if not isinstance(raw, str):
        return read_integer(raw)
    try:
        return parsing.duration(raw)
    except ValueError:
        raise ValueError("is not a duration (such as 1500, 10s or 2m)") from None


def read_names(raw: object) -> tuple[str, ...]:
    """Each name once, without the blanks around it."""
    names = tuple(dict.fromkeys(read_text(name) for name in elements(raw)))
    if "" in names:
        raise ValueError("has an empty element")
    return names


def _words(raw: object) -> list[Any]:
    """A TOML list, or a text as a shell would split it."""
    if not isinstance(raw, str):
        return elements(raw)
    try:
        return shlex.split(raw)
    except ValueError:
        raise ValueError("has a quote that is not closed") from None


def read_names_of_hadoop(raw: object) -> tuple[str, ...]:
    """Blanks belong to a name and empty elements are dropped."""
    return tuple(parsing.names(str(raw)))


INTEGERS = several("list of integers", read_decimal, str)
PERCENTS = several(
    "list of percents",
    read_percent,
    lambda fraction: f"{fraction * 100:.12g}",
    read_percent_of_hadoop,
)
DURATIONS = several("list of durations", read_duration_ms, str)
NAMES = Kind(
    "list of names",
    read_names,
    lambda names: f"[{', '.join(map(show_text, names))}]",
    read_names_of_hadoop,
)
WORDS = Kind(
    "list of words",
    lambda raw: tuple(map(read_text, _words(raw))),
    lambda words: f"[{', '.join(map(show_text, words))}]",
)
