"""The grammar of values in a Hadoop configuration (`org.apache.hadoop.conf.Configuration`).

    integer    "42", " 42 ", "0x2A", "-0x2A"; bounded by its Java type; no fraction, no unit
    integers   "1, 2,3": blanks around commas and line breaks dropped, empty ends, too; no hex
    number     "0.5", "1e-300", "0.5d"; NaN and Infinity are numbers, and left to the bounds
    boolean    "true" or "false" in any case; anything else is the default
    durations  "1500, 2s, 3m": integers with ns, us, ms, s, m, h, d in any case; default ms
    names      "a,b": split at commas only. Blanks belong to the name

All functions raise `NotParseable`; none looks at bounds.
"""

from __future__ import annotations

import re

from .errors import NotParseable
from .units import TimeUnit

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_HEXADECIMAL = re.compile(r"-?0[xX][0-9a-fA-F]+")
_NUMBER = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=[fFdD]?$))", re.ASCII
)
_SEPARATOR = re.compile(r"\s*[,\n]\s*")
_SUFFIXES = {
    "ns": TimeUnit.NANOSECONDS,
    "us": TimeUnit.MICROSECONDS,
    "ms": TimeUnit.MILLISECONDS,
    "s": TimeUnit.SECONDS,
    "m": TimeUnit.MINUTES,
    "h": TimeUnit.HOURS,
    "d": TimeUnit.DAYS,
}


def _decimal(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise NotParseable(f"not an integer: {text!r}")
    return _bounded(int(text), text, bits)


def _bounded(value: int, text: str, bits: int) -> int:
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise NotParseable(f"not a {bits}-bit integer: {text!r}")
    return value


def integer(text: str, bits: int = 32) -> int:
    """A decimal or hexadecimal integer of `bits` bits."""
    stripped = text.strip()
    if _HEXADECIMAL.fullmatch(stripped):
        return _bounded(int(stripped, 16), stripped, bits)
    return _decimal(stripped, bits)


def words(text: str) -> list[str]:
    """The trimmed items of a list; none for a blank text."""
    stripped = text.strip()
    items = _SEPARATOR.split(stripped) if stripped else []
    while items and not items[-1]:
        items.pop()
    return items


def integers(text: str) -> list[int]:
    """A list of decimal 32-bit integers."""
    return [_decimal(word, 32) for word in words(text)]


def number(text: str) -> float:
    """A floating-point number, as `Double.parseDouble` reads it (but for hexadecimal ones)."""
    stripped = text.strip()
    matched = _NUMBER.match(stripped)
    if matched is None or stripped[matched.end() :] not in ("", "f", "F", "d", "D"):
        raise NotParseable(f"not a number: {text!r}")
    return float(matched.group())


def boolean(text: str, default: bool) -> bool:
    """True or False where the text says so, else `default`."""
    return {"true": True, "false": False}.get(text.strip().lower(), default)


def duration(text: str, unit: TimeUnit = TimeUnit.MILLISECONDS) -> int:
    """An integer number of `unit`, truncated; a text without a suffix is in `unit` already."""
    lowered = text.strip().lower()
    for suffix, written in _SUFFIXES.items():
        if lowered.endswith(suffix):
            return unit.convert(_decimal(lowered.removesuffix(suffix), 64), written)
    return _decimal(lowered, 64)


def durations_ms(text: str) -> list[int]:
    """A list of durations, in milliseconds."""
    return [duration(word) for word in words(text)]


def names(text: str) -> list[str]:
    """The non-empty items between commas, as they stand, each once, in order."""
    return list(dict.fromkeys(item for item in text.split(",") if item))
