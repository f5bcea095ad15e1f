"""msgspec's complaints about params, in the words of the function's caller: by parameter name.

msgspec says "Expected `int`, got `str` - at `$[0].x`" or, without a path, what is missing or too
much. The texts are pinned by tests; one that is not recognised is passed on as it is.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_PATH: Final = re.compile(
    r" - at `(?P<inside>(?:\w+` in `)?)\$(?:\[(?P<index>\d+)\]|\.(?P<name>\w+))"
)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]+)`$")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>[^`]+)`$")
_TOO_FEW: Final = re.compile(r"Expected `array` of at least length \d+, got (?P<given>\d+)$")
_TOO_MANY: Final = re.compile(r"Expected `array` of at most length (?P<most>\d+)")


class Mismatch(NamedTuple):
    """What is wrong, and with which parameter (None where it is not one)."""

    text: str
    parameter: str | None = None


def explain(complaint: str, names: list[str]) -> Mismatch:
    """`names` are those of the positional parameters, in order."""
    if match := _PATH.search(complaint):
        return _wrong_value(complaint, match, names)
    if match := _MISSING.match(complaint):
        return _missing(match["name"])
    if match := _UNKNOWN.match(complaint):
        return Mismatch(f"unknown parameter `{match['name']}`", match["name"])
    if match := _TOO_FEW.match(complaint):
        return _missing(names[int(match["given"])])
    if _TOO_MANY.match(complaint):
        return Mismatch(f"too many values for {_listed(names)}")
    return Mismatch(complaint)


def _wrong_value(complaint: str, match: re.Match[str], names: list[str]) -> Mismatch:
    index = match["index"]
    name = match["name"] if index is None else names[int(index)]
    rest = complaint[match.end() :].rstrip("`")
    where = f"a key of parameter `{name}{rest}`" if match["inside"] else f"parameter `{name}{rest}`"
    return Mismatch(f"{where}: {complaint[: match.start()]}", name)


def _missing(name: str) -> Mismatch:
    return Mismatch(f"missing parameter `{name}`", name)


def _listed(names: list[str]) -> str:
    if not names:
        return "a method without positional parameters"
    return f"parameter{'s' * (len(names) > 1)} " + ", ".join(f"`{name}`" for name in names)
