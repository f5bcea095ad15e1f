"""The name that was probably meant by one that does not exist."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable
from typing import Final

from .errors import METHOD_NOT_FOUND, error_object

LONGEST_CHARS: Final = 100  # of a wrong name that is shown, or looked for
REST: Final = 20  # times as long as a search took, none is made

_rests_until_ns = 0


def unknown_method(wanted: str, known: Callable[[], Iterable[str]]) -> bytes:
    """-32601 for a method that is not among `known()`, with the name that is most like it."""
    text = f"Method not found: {wanted[:LONGEST_CHARS]}"
    if len(wanted) > LONGEST_CHARS:
        text += "..."
    elif meant := _nearest(wanted, known):
        text += f"; did you mean {meant}?"
    return error_object(METHOD_NOT_FOUND, text)


def _nearest(wanted: str, known: Callable[[], Iterable[str]]) -> str:
    """The name most like `wanted`; "" if none is, or while this process rests from the last search.

    A search takes up to milliseconds: a flood of wrong names may have a twentieth of a process.
    """
    global _rests_until_ns
    began_ns = time.monotonic_ns()
    if began_ns < _rests_until_ns:
        return ""
    found = difflib.get_close_matches(wanted, list(known()), 1)
    ended_ns = time.monotonic_ns()
    _rests_until_ns = ended_ns + REST * (ended_ns - began_ns)
    return found[0] if found else ""
