"""Suites as tables: a row a case and group, a column a figure; the median, and its spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .document import CaseFound, median, spread

MOST_SPREAD = 0.1  # above which a figure tells how far its repeats differ


def suite_table(suite: Mapping[str, Any]) -> str:
    """A suite of one case without labels has its figures below each other."""
    cases: Sequence[CaseFound] = suite["cases"]
    if suite.get("grids"):
        return "\n\n".join(grid_table(grid) for grid in suite["grids"])
    labels = list(cases[0]["labels"])
    rows = [row for case in cases for row in _rows(case)]
    figures = list(dict.fromkeys(name for _, found in rows for name in found))
    if len(rows) == 1 and not labels:
        return columns([["figure", "value"], *([n, shown(rows[0][1][n])] for n in figures)])
    named = any(group for group, _ in rows)
    lines = [[*labels, *(["group"] if named else []), *figures]]
    for case in cases:
        texts = [str(case["labels"][label]) for label in labels]
        for group, found in _rows(case):
            cells = [shown(found.get(name, [])) for name in figures]
            lines.append([*texts, *([group] if named else []), *cells])
    return columns(lines)


def grid_table(grid: Mapping[str, Any]) -> str:
    """A figure by two variables."""
    head = [f"{grid['rows']} \\ {grid['columns']}", *map(str, grid["column_values"])]
    lines = [
        [str(value), *("-" if cell is None else number(cell) for cell in cells)]
        for value, cells in zip(grid["row_values"], grid["values"], strict=True)
    ]
    return f"{grid['figure']}:\n{columns([head, *lines])}"


def knee_line(knee: Mapping[str, Any]) -> str:
    """Where a knee is, in words."""
    where = f"knee ({knee['sweep']})" if knee["sweep"] else "knee"
    if knee["at"] is None:
        return f"{where}: none, already the first case is beyond it; it is {knee['rule']}"
    return (
        f"{where}: {knee['over']}={knee['at']:g}, {number(knee['offered'])} calls/s offered, "
        f"{knee['figure']} {number(knee['value'])} (at most {number(knee['limit'])}); "
        f"it is {knee['rule']}"
    )


def _rows(case: CaseFound) -> Sequence[tuple[str, Mapping[str, Sequence[float | None]]]]:
    """(group, its figures): figures of no group stand with those of the first."""
    if len(case["groups"]) < 2:
        return [("", case["figures"])]
    found: dict[str, dict[str, Sequence[float | None]]] = {name: {} for name in case["groups"]}
    first = next(iter(found))
    for figure, values in case["figures"].items():
        group, _, rest = figure.partition(" ")
        if group in found:
            found[group][rest] = values
        else:
            found[first][figure] = values
    return list(found.items())


def shown(values: Sequence[float | None]) -> str:
    """`12.3`, or `12.3 ±25%` if repeats differ much."""
    middle, wide = median(values), spread(values)
    if math.isnan(middle):
        return "-"
    return number(middle) + (f" ±{wide:.0%}" if wide > MOST_SPREAD else "")


def number(value: float) -> str:
    """Three digits that count, at least."""
    if value == int(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def columns(lines: Sequence[Sequence[str]]) -> str:
    """The first line is the head; texts to the right but in the first column."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    ruled = [lines[0], ["-" * width for width in widths], *lines[1:]]
    return "\n".join(
        "  ".join(
            text.rjust(width) if at else text.ljust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in ruled
    )
