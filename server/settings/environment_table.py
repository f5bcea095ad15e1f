"""The kind of value that is a table of environment variables: `{ OMP_NUM_THREADS = "2" }`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter

from .kinds import Kind, show_text

PLACES = ("index", "group")  # what may stand in braces
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_environment(raw: object) -> Mapping[str, str]:
    """Names to texts; a number counts as its text."""
    if not isinstance(raw, Mapping):
        raise ValueError('is not a table of environment variables (such as { NAME = "value" })')
    return {_name(name): _text(name, value) for name, value in raw.items()}


def filled(environment: Mapping[str, str], *, index: int, group: str) -> dict[str, str]:
    """The variables of one process."""
    return {name: text.format(index=index, group=group) for name, text in environment.items()}


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name} is no name of an environment variable")
    return name


def _text(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name} is not text")
    text = str(value)
    if "\0" in text:
        raise ValueError(f"{name} has a NUL character")
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        parts = [("", "", "", None)]
    for _, place, form, conversion in parts:
        if place is not None and (place not in PLACES or form or conversion):
            known = " and ".join(f"{{{known}}}" for known in PLACES)
            raise ValueError(f"{name}: in braces only {known} are known; write {{{{ for a brace")
    return text


def _show(environment: Mapping[str, str]) -> str:
    inner = ", ".join(f"{name} = {show_text(text)}" for name, text in environment.items())
    return f"{{ {inner} }}" if inner else "{}"


ENVIRONMENT = Kind("table of texts", read_environment, _show)
