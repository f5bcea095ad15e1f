"""The document of a run: what `--json` writes, and tables, reports and comparisons read.

    {"faircall-bench": 1, "started": ISO time, "environment": {...},
     "suites": [{"name", "about", "knee", "grids", "cases": [CASE, ...]}]}

A CASE has `labels` (the variables' values), `figures` (name to a list: one value a repeat; null
where there is none), `groups` (name to `latency`, a histogram of all repeats, and `seconds`, those
of the last repeat), `waiting` ([second, calls in the queue] of it), `server` ({"second", "pss_mib",
"cpu_s", "file_mb", "loopback_mb"}: what its processes had taken until then) and `warnings`. Groups
named GROUP/METHOD are one of several methods, GROUP:page are pages. `knee` is that of `knee_of`,
`grids` those of `grids_of`, or null.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .figures import methods
from .histogram import Histogram
from .measure import Measured
from .result import Result, Second

VERSION = 1
FORMAT = "faircall-bench"
Document = Mapping[str, Any]
CaseFound = Mapping[str, Any]


class DocumentError(Exception):
    """A file that is no document of a run."""


def case_document(labels: Mapping[str, Any], repeats: Sequence[Measured]) -> dict[str, Any]:
    """All repeats of one case."""
    names = list(dict.fromkeys(name for measured in repeats for name in measured.figures))
    results = [measured.result for measured in repeats if measured.result]
    groups: dict[str, Any] = {}
    for result in results:
        for name, latency, seconds in _distributions(result):
            so_far = groups.get(name, {}).get("latency", Histogram())
            groups[name] = {"latency": so_far + latency, "seconds": seconds}
    for found in groups.values():
        found["latency"] = found["latency"].as_json()
    warnings = dict.fromkeys(warning for measured in repeats for warning in measured.warnings)
    return {
        "labels": dict(labels),
        "figures": {name: [_plain(m.figures.get(name)) for m in repeats] for name in names},
        "groups": groups,
        "waiting": [list(pair) for pair in repeats[-1].waiting.items()],
        "server": [{"second": at, **asdict(look)} for at, look in repeats[-1].server.items()],
        "warnings": list(warnings),
        "generator": results[-1].generator if results else "none",
    }


def _distributions(result: Result) -> Iterator[tuple[str, Histogram, list[dict[str, Any]]]]:
    """(name, latencies, by second) of each group, its methods and its pages."""
    for group in result.groups:
        yield group.name, group.latency, [_second(second) for second in group.seconds]
        for name, method in methods(group):
            yield name, method.latency, []
        if group.pages.latency.count:
            yield f"{group.name}:page", group.pages.latency, []


def _second(second: Second) -> dict[str, Any]:
    latency = second.latency
    return {
        "ok": latency.count,
        "failed": second.failed,
        "p50_ms": _plain(latency.quantile(0.5) / 1e6),
        "p99_ms": _plain(latency.quantile(0.99) / 1e6),
    }


def _plain(value: float | None) -> float | None:
    """As JSON can hold it: six digits."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def median(values: Sequence[float | None]) -> float:
    """Of those that there are; nan if there is none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else math.nan


def spread(values: Sequence[float | None]) -> float:
    """Half the range, as a part of the median; 0 for a single value."""
    known = [value for value in values if value is not None]
    middle = median(values)
    return (max(known) - min(known)) / 2 / abs(middle) if known and middle else 0.0


def key_of(case: CaseFound) -> str:
    """A case's labels in one text, by which it is found again."""
    return " ".join(f"{name}={value}" for name, value in case["labels"].items())


def read(path: Path) -> Document:
    """DocumentError."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise DocumentError(f"{path}: {error}") from None
    if not isinstance(found, dict) or found.get(FORMAT) != VERSION:
        raise DocumentError(f"{path} is not what `faircall bench run --json` wrote")
    return found


def csv_lines(document: Document) -> list[str]:
    """Raw data: a line for each figure of each repeat."""
    lines = ["suite,case,figure,repeat,value"]
    for suite in document["suites"]:
        for case in suite["cases"]:
            for name, values in case["figures"].items():
                for number, value in enumerate(values, 1):
                    shown = "" if value is None else f"{value:g}"
                    lines.append(f"{suite['name']},{key_of(case)},{name},{number},{shown}")
    return lines
