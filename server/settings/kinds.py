"""The kinds of values: how each is read from TOML or text, and written as TOML.

Text comes from flags, the environment, quoted TOML values and core-site.xml. `read` is strict and
raises ValueError with the end of a sentence ("is not an integer"). `read_hadoop` stands where
Hadoop reads the text of a core-site.xml in another way; `UNSET` means that it then takes the
default. Text is parsed by Hadoop's grammar (`faircall.scheduling.parsing`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...scheduling import parsing
from ...scheduling.components import canonical


class Unset:
    """The one value `UNSET`: what was written counts as nothing written."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()

Reader = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Kind:
    """`name` stands in the reference page; `show` writes a value as a TOML literal."""

    name: str
    read: Reader
    show: Callable[[Any], str]
    read_hadoop: Reader | None = None


def read_integer(raw: object) -> int:
    """Decimal, or 0x and hexadecimal digits; 64 bits signed."""
    if isinstance(raw, str):
        try:
            return parsing.integer(raw, 64)
        except ValueError:
            raise ValueError("is not an integer") from None
    if not isinstance(raw, int) or isinstance(raw, bool):
        raise ValueError("is not an integer")
    return raw


def read_number(raw: object) -> float:
    """A finite number: NaN would pass any bound."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError("is not a number")
    try:
        number = parsing.number(raw) if isinstance(raw, str) else float(raw)
    except (ValueError, OverflowError):
        raise ValueError("is not a number") from None
    if not math.isfinite(number):
        raise ValueError("is not a finite number")
    return number


def read_flag(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.strip().lower() in ("true", "false"):
        return raw.strip().lower() == "true"
    raise ValueError("is neither true nor false")


def read_text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError("is not text")
    return raw.strip()


_BYTES = re.compile(r"([0-9]+) *(?:([KMG])(?:iB)?)?", re.IGNORECASE)
_SHIFTS = {"K": 10, "M": 20, "G": 30}


def read_bytes(raw: object) -> int:
    """A number of bytes, or text with a unit: 65536, "64 KiB", "16M"."""
    if not isinstance(raw, str):
        return read_integer(raw)
    match = _BYTES.fullmatch(raw.strip())
    if not match:
        raise ValueError("is not a number of bytes (such as 65536 or 64 KiB)")
    return int(match[1]) << _SHIFTS.get((match[2] or "").upper(), 0)


def show_text(value: object) -> str:
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def show_bytes(value: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value and value % (1 << shift) == 0:
            return f'"{value >> shift} {unit}"'
    return str(value)


def or_unset(read: Reader) -> Reader:
    """Hadoop's way with what it cannot read: as if nothing had been written."""

    def lenient(raw: object) -> object:
        try:
            return read(raw)
        except ValueError:
            return UNSET

    return lenient


def choice(*options: str | int) -> Kind:
    """One of `options`, in upper or lower case."""
    by_text = {str(option).lower(): option for option in options}

    def read(raw: object) -> object:
        try:
            return by_text[str(raw).strip().lower()]
        except KeyError:
            raise ValueError(f"is not one of {', '.join(map(str, options))}") from None

    name = " or ".join(f"`{option}`" for option in options)
    return Kind(
        name, read, lambda v: str(v) if isinstance(v, int) else show_text(v), or_unset(read)
    )


_PLUGIN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def implementation(
    *names: str, aliases: Mapping[str, str], plugin: bool, why_no_plugin: str = ""
) -> Kind:
    """One of `names`, an alias or Hadoop's class name of one, or `module:Class` where allowed."""
    known = {name: name for name in names} | dict(aliases)
    forms = (*names, "module:Class") if plugin else names
    known_are = f"is not one of {', '.join(forms)}"

    def read(raw: object) -> str:
        name = canonical(read_text(raw))
        if name in known:
            return known[name]
        is_plugin = _PLUGIN.fullmatch(name)
        if plugin and is_plugin:
            return name
        raise ValueError(f"{known_are}: {why_no_plugin}" if is_plugin else known_are)

    def read_first(raw: object) -> str:
        return read(str(raw).split(",")[0])

    return Kind(" or ".join(f"`{form}`" for form in forms), read, show_text, read_first)


INTEGER = Kind("integer", read_integer, str)
NUMBER = Kind("number", read_number, repr)
FLAG = Kind("`true` or `false`", read_flag, lambda v: str(v).lower(), or_unset(read_flag))
TEXT = Kind("text", read_text, show_text)
BYTES = Kind("bytes", read_bytes, show_bytes)
