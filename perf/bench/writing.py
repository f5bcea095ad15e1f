"""The files that a run leaves: JSON, CSV, distributions, a report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .document import Document, csv_lines, key_of
from .histogram import Histogram, hgrm
from .report import page


def write_files(document: Document, output: Mapping[str, Any]) -> None:
    """Those that `output` asks for: json_file, csv_file, hgrm_folder, html_file. OSError."""
    if output["json_file"]:
        output["json_file"].write_text(json.dumps(document, indent=1) + "\n")
    if output["csv_file"]:
        output["csv_file"].write_text("\n".join(csv_lines(document)) + "\n")
    if output["html_file"]:
        output["html_file"].write_text(page(document), encoding="utf-8")
    if output["hgrm_folder"]:
        _distributions(document, output["hgrm_folder"])


def _distributions(document: Document, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for suite in document["suites"]:
        for case in suite["cases"]:
            for name, group in case["groups"].items():
                parts = " ".join((suite["name"], key_of(case), name))
                file = re.sub(r"[^\w.=]+", "-", parts) + ".hgrm"
                (folder / file).write_text(hgrm(Histogram.from_json(group["latency"])))
