"""The kind of setting that is a list of rates, a line of text each."""

from __future__ import annotations

from ...scheduling.dispatch_lines import policies_of
from ...scheduling.errors import BadValue
from .kinds import Kind, read_text, show_text


def read_lines(raw: object) -> tuple[str, ...]:
    """The lines of a TOML list, or of a text; ValueError says what is wrong with which."""
    given = raw.splitlines() if isinstance(raw, str) else raw
    if not isinstance(given, list):
        raise ValueError("is not a list of lines")
    lines = tuple(" ".join(read_text(line).split()) for line in given)
    try:
        policies_of(lines)
    except BadValue as error:
        raise ValueError(f"has a line that is no rate: {error}") from None
    return tuple(line for line in lines if line)


RATE_LINES = Kind(
    "list of lines", read_lines, lambda lines: f"[{', '.join(map(show_text, lines))}]"
)
