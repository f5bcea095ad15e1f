"""One HTML page of a run: tables and plots, with all that it needs inside of it.

The page asks nobody for anything: its Content-Security-Policy forbids it. uPlot (MIT) draws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .document import Document, key_of
from .histogram import Histogram, lowest
from .tables import knee_line, suite_table

FOLDER = Path(__file__).parent.parent / "report"
UPLOT = Path(__file__).parents[2] / "server" / "admin" / "page"  # that of the dashboard
PARTS = {
    "STYLE": (UPLOT / "uplot.min.css", FOLDER / "report.css"),
    "LICENSE": (UPLOT / "uplot.LICENSE",),
    "UPLOT": (UPLOT / "uplot.min.js",),
    "SCRIPT": (FOLDER / "report.js",),
}
MOST_POINTS = 200  # of a curve


def page(document: Document) -> str:
    """The whole page as text."""
    text = (FOLDER / "page.html").read_text()
    for place, files in PARTS.items():
        inlined = "\n".join(file.read_text() for file in files)
        text = text.replace(f"@{place}@", inlined)
    shown = {**document, "suites": [_suite(suite) for suite in document["suites"]]}
    plain = json.dumps(shown).replace("<", "\\u003c")  # nothing in it ends the script
    return text.replace("@DOCUMENT@", plain)


def curve(histogram: Histogram) -> list[list[float]]:
    """Points (1 / (1 - percentile), ms) of a distribution, the last one at its largest value."""
    found: list[list[float]] = []
    seen = 0
    for bucket in sorted(histogram.buckets):
        seen += histogram.buckets[bucket]
        left = max(1 - seen / histogram.count, 1 / histogram.count)
        value = min(lowest(bucket + 1) - 1, histogram.largest) / 1e6
        found.append([round(1 / left, 4), round(value, 4)])
    every = max(1, len(found) // MOST_POINTS)
    return found[::every] + found[-1:] if every > 1 else found


def _suite(suite: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        **suite,
        "table": suite_table(suite),
        "knees": [knee_line(knee) for knee in suite.get("knee") or ()],
        "cases": [_case(case) for case in suite["cases"]],
    }


def _case(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """Curves take the place of histograms."""
    groups = {
        name: {
            "seconds": group["seconds"],
            "curve": curve(Histogram.from_json(group["latency"])),
        }
        for name, group in case["groups"].items()
    }
    return {**case, "key": key_of(case), "groups": groups}
