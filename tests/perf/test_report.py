"""The page of a run holds everything that it shows, and asks nobody for anything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from faircall.perf.bench.cli import bench
from faircall.perf.bench.histogram import Histogram
from faircall.perf.bench.report import curve, page

LATENCY = Histogram.of(range(1_000_000, 101_000_000, 1_000_000))
CASE: dict[str, Any] = {
    "labels": {"queue": "</script><b>"},
    "figures": {"p99 ms": [99.0, None]},
    "groups": {"main": {"latency": LATENCY.as_json(), "seconds": []}},
    "waiting": [],
    "warnings": ["late"],
}
DOCUMENT: dict[str, Any] = {
    "faircall-bench": 1,
    "started": "now",
    "target": "tcp://h:1",
    "repeats": 2,
    "environment": {"cores": 2},
    "suites": [{"name": "s", "about": "about it", "cases": [CASE]}],
}


def test_the_page_is_self_contained() -> None:
    text = page(DOCUMENT)
    assert not re.search(r"@[A-Z]+@", text)
    assert not re.search(r"""(src|href)\s*=|@import|url\(|fetch\(|XMLHttpRequest""", text)
    assert "default-src 'none'" in text
    assert "The MIT License" in text
    assert "var uPlot=" in text
    assert text.count("</script>") == text.count("<script") == 3


def test_the_document_in_the_page_is_that_of_the_run() -> None:
    found = re.search(
        r'<script type="application/json" id="document">(.*?)</script>', page(DOCUMENT)
    )
    assert found
    shown = json.loads(found[1])
    (case,) = shown["suites"][0]["cases"]
    assert case["labels"] == CASE["labels"]
    assert case["figures"] == CASE["figures"]
    assert case["groups"]["main"]["curve"] == curve(LATENCY)


def test_a_curve_ends_at_the_largest_value() -> None:
    points = curve(LATENCY)
    assert points[-1] == [100, 100]
    assert points == sorted(points)
    assert min(abs(x - 2) for x, _ in points) < 0.05  # the median is where half is left
    assert len(curve(Histogram.of(range(1, 10**9, 10**5)))) <= 500


def test_a_report_is_made_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(DOCUMENT))
    words = ["report", str(tmp_path / "a.json"), str(tmp_path / "a.html")]
    found = CliRunner().invoke(bench, words)
    assert found.exit_code == 0, found.output
    assert (tmp_path / "a.html").read_text() == page(DOCUMENT)
