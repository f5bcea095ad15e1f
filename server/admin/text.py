"""Statistics as text: plain values in lines, mappings as sections, lists of mappings as tables.

    faircall=0.1.0  pid=4711  phase=RUNNING  uptime=3m12s

    port 8020  phase=RUNNING  uptime=3m12s  addresses=tcp://127.0.0.1:8020

    queue  impl=FairCallQueue  scheduler=DecayRpcScheduler  waiting=254
      level  weight  capacity  waiting  held  overflowed  callers
          0       8     1,024        0     0           0        1

How a value is written follows from the end of its name: `_bytes`, `_s`, `share`. Names come from
clients: what a terminal would obey is escaped, here and in the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..log import escape

WIDTH = 100  # of a line of plain values; tables are as wide as they are
MAX_CELL_CHARS = 48
GAP = "  "
NO_AMOUNTS = ("port", "pid")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")

Row = Mapping[str, Any]


def as_text(counted: Row, as_json: bool) -> str:
    """`counted` for people, or as one line of JSON."""
    if as_json:
        return escape(json.dumps(counted, ensure_ascii=False, separators=(",", ":")))
    return "\n".join(_section(counted, "", "")).strip("\n")


def _section(members: Row, title: str, path: str) -> Iterator[str]:
    """The plain values behind `title`, then what is nested, under its name if it is not alone."""
    nested = {name: value for name, value in members.items() if _is_nested(value)}
    plain = [f"{_label(n)}={cell(n, v)}" for n, v in members.items() if n not in nested]
    if plain:
        yield ""
        yield from _wrapped([title, *plain] if title else plain)
    alone = bool(title and plain) and len(nested) == 1
    for name, value in nested.items():
        below = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _section(value, below, below)
        elif any(map(_is_nested, value[0].values())):
            for row in value:
                yield from _numbered(row, name)
        else:
            yield from table(value, "" if alone else below)


def _numbered(row: Row, name: str) -> Iterator[str]:
    """One of several things: `port 8020` is the one of `ports` whose first member is 8020."""
    first, *rest = row
    title = f"{name.removesuffix('s')} {cell(first, row[first])}"
    yield from _section({key: row[key] for key in rest}, title, "")


def _wrapped(words: Sequence[str]) -> Iterator[str]:
    """The words in lines of at most WIDTH, all but the first indented."""
    line = words[0]
    for word in words[1:]:
        if len(line) + len(GAP) + len(word) > WIDTH:
            yield line
            line = f"{GAP}{word}"
        else:
            line += GAP + word
    yield line


def table(rows: Sequence[Row], title: str = "") -> Iterator[str]:
    """`title`, a head of all names that any row has, and the rows; numbers are set right."""
    if title:
        yield from ("", title)
    names = list(dict.fromkeys(name for row in rows for name in row))
    heads = [_label(name) for name in names]
    for at, name in enumerate(names):
        if heads.count(heads[at]) > 1:  # the debt in calls, and that in bytes
            heads[at] = name
    columns = [
        _column(head, name, [row.get(name) for row in rows])
        for head, name in zip(heads, names, strict=True)
    ]
    for line in zip(*columns, strict=True):
        yield f"{GAP}{GAP.join(line)}".rstrip()


def _column(head: str, name: str, values: Sequence[Any]) -> list[str]:
    """Head and cells, all of one width."""
    cells = [head, *(cell(name, value) for value in values)]
    align = str.ljust if any(isinstance(value, str) for value in values) else str.rjust
    width = max(map(len, cells))
    return [align(text, width) for text in cells]


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)


def _label(name: str) -> str:
    """The name of a value whose unit stands with it."""
    return name.removesuffix("_bytes").removesuffix("_s") if _has_unit(name) else name


def _has_unit(name: str) -> bool:
    return name.endswith(("_bytes", "_s")) and not name.endswith("_per_s")


def cell(name: str, value: Any) -> str:
    """`value` in as few characters as say it."""
    if value is None:
        return ""
    if isinstance(value, str):
        shown = escape(value)
        return shown if len(shown) <= MAX_CELL_CHARS else shown[: MAX_CELL_CHARS - 3] + "..."
    if isinstance(value, list):
        return ",".join(cell("", item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "bytes" or name.endswith("_bytes"):
        return _size(value)
    if name == "share" or name.endswith("_share"):
        return f"{value:.1%}"
    if _has_unit(name):
        return _duration(value)
    if isinstance(value, float):
        return f"{value:,.2f}"
    return str(value) if name in NO_AMOUNTS else f"{value:,}"


def _size(count: float) -> str:
    for unit in _SIZES:
        if count < 1024 or unit == _SIZES[-1]:
            break
        count /= 1024
    return f"{count:,.0f}{unit}" if count == int(count) else f"{count:,.1f}{unit}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest_s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    return f"{hours}h{minutes}m" if hours else f"{minutes}m{rest_s}s"
