"""What cases of a sweep say together: where the knee is, and figures as matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .document import CaseFound, key_of, median
from .figures import ANSWERED, OFFERED
from .specs import GridSpec, KneeSpec


def knee_of(spec: KneeSpec, cases: Sequence[CaseFound]) -> list[dict[str, Any]]:
    """The knee of each sweep: cases that differ only in the variable of the sweep.

    {"sweep": other labels, "over": variable, "at": value or null, "figure", "value", "limit",
     "offered": calls/s, "rule": what a knee is}; `at` is null if no case but the first could be one
    and the first is none itself.
    """
    sweeps: dict[str, list[CaseFound]] = {}
    for case in cases:
        rest = {name: value for name, value in case["labels"].items() if name != spec.over}
        sweeps.setdefault(key_of({"labels": rest}), []).append(case)
    return [_knee(spec, sweep, found) for sweep, found in sweeps.items()]


def rule_of(spec: KneeSpec) -> str:
    """The rule in words."""
    return (
        f"the last {spec.over} up to which {spec.figure} is at most {spec.times:g} times that of "
        f"the first and {spec.achieved:.0%} of what is offered is answered"
    )


def _knee(spec: KneeSpec, sweep: str, cases: Sequence[CaseFound]) -> dict[str, Any]:
    ordered = sorted(cases, key=lambda case: float(case["labels"][spec.over]))
    limit = spec.times * median(ordered[0]["figures"][spec.figure])
    last: CaseFound | None = None
    for case in ordered:
        figures = case["figures"]
        answered, offered = median(figures[ANSWERED]), median(figures[OFFERED])
        if not (median(figures[spec.figure]) <= limit and answered >= spec.achieved * offered):
            break
        last = case
    found = {"sweep": sweep, "over": spec.over, "figure": spec.figure, "rule": rule_of(spec)}
    if last is None:
        return {**found, "at": None}
    return {
        **found,
        "at": last["labels"][spec.over],
        "value": median(last["figures"][spec.figure]),
        "limit": limit,
        "offered": median(last["figures"][OFFERED]),
    }


def grids_of(spec: GridSpec, cases: Sequence[CaseFound]) -> list[dict[str, Any]]:
    """A matrix of medians for each figure: {"figure", "rows", "columns", "row_values",
    "column_values", "values"}; a value is null where there is no case, or no figure."""
    rows = _values(spec.rows, cases)
    columns = _values(spec.columns, cases)
    by_place: Mapping[Any, CaseFound] = {
        (case["labels"][spec.rows], case["labels"][spec.columns]): case for case in cases
    }
    head: dict[str, Any] = {"rows": spec.rows, "columns": spec.columns}
    head |= {"row_values": rows, "column_values": columns}
    return [
        {
            "figure": figure,
            **head,
            "values": [[_cell(by_place.get((r, c)), figure) for c in columns] for r in rows],
        }
        for figure in spec.figures
    ]


def _values(variable: str, cases: Sequence[CaseFound]) -> list[Any]:
    return list(dict.fromkeys(case["labels"][variable] for case in cases))


def _cell(case: CaseFound | None, figure: str) -> float | None:
    known = [v for v in case["figures"].get(figure, ()) if v is not None] if case else []
    return median(known) if known else None
