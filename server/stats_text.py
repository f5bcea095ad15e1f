"""Statistics as text: nested mappings become sections, lists of mappings become tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def as_text(counted: Mapping[str, Any], as_json: bool) -> str:
    if as_json:
        return json.dumps(counted, ensure_ascii=False, separators=(",", ":"))
    return "\n".join(_section(counted, ""))


def _section(members: Mapping[str, Any], title: str) -> Iterator[str]:
    """Plain values first, each on a line, then what has a title of its own."""
    plain = {name: value for name, value in members.items() if not _is_nested(value)}
    if title:
        yield ""
        yield title
    width = max(map(len, plain), default=0)
    for name, value in plain.items():
        yield f"  {name:<{width}}  {_cell(value)}"
    for name, value in members.items():
        below = f"{title}.{name}" if title else name
        if isinstance(value, Mapping):
            yield from _section(value, below)
        elif _is_nested(value):
            yield from _table(value, below)


def _table(rows: Sequence[Mapping[str, Any]], title: str) -> Iterator[str]:
    """A head of all names that any row has, and the rows under it."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_cell(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield ""
    yield title
    for line in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)]
        yield f"  {'  '.join(cells)}".rstrip()


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _cell(value: Any) -> str:
    """Text without its control characters: names come from clients."""
    if isinstance(value, str):
        return "".join(c if c.isprintable() else "?" for c in value)
    return json.dumps(value, ensure_ascii=False)
