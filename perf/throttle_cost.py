"""What limits cost a server that they do not slow: throughput with them by throughput without.

Two servers are loaded side by side (`side_by_side`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .rows import Outcome, Row
from .side_by_side import Effort, Pumped, Side, pairs_of, ratio_row

LEAST = 0.95  # of the throughput without limits
MOST_HALF_WIDTH = 0.03
CONNECTIONS = 8
DEPTH = 16
MANY = str(2**31 - 1)
CONFIGURED: Mapping[str, Mapping[str, str]] = {
    "method": {"throttle.rates": f"method echo: calls={MANY}"},
    "server, method, caller": {
        "throttle.calls": MANY,
        "throttle.method-calls": MANY,
        "throttle.caller-calls": MANY,
    },
}


def overhead(seconds: float, pairs: int, starts: int) -> Outcome:
    """A row for each set of limits, none of which bites."""
    effort = Effort(seconds, pairs, starts)
    rows = [
        _row(f"limits of {name}", Side(), Side(settings), effort)
        for name, settings in CONFIGURED.items()
    ]
    claim = f"limits that do not bite leave {LEAST:.0%} of the throughput"
    return Outcome(rows, claim, all(float(str(row["ratio"])) >= LEAST for row in rows))


def unused(before: Path, after: Path | None, seconds: float, pairs: int, starts: int) -> Outcome:
    """No limit configured: the server of one checkout by that of another, or by this one.

    A checkout is a folder with build/pkg/faircall.
    """
    one = Side(outer=_environment(before))
    other = Side() if after is None else Side(outer=_environment(after))
    row = _row("none", one, other, Effort(seconds, pairs, starts))
    high, half = (float(str(row[key])) for key in ("to", "half-width"))
    claim = f"it is not slower: the interval ends above 1, half its width is {MOST_HALF_WIDTH}"
    return Outcome([row], claim, high >= 1 and half <= MOST_HALF_WIDTH)


def _row(name: str, one: Side, other: Side, effort: Effort) -> Row:
    pairs = pairs_of(one, other, lambda at: Pumped(at, CONNECTIONS, DEPTH), effort)
    return {"limits": name, **ratio_row(pairs, "without", "with")}


def _environment(tree: Path) -> Mapping[str, str]:
    """One in which the package is that of `tree`. FileNotFoundError."""
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve() / "build" / "pkg")}
    command = [sys.executable, "-c", "import faircall; print(faircall.__file__)"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    place = Path(found.stdout.strip() or ".")
    if place.resolve().parent != tree.resolve():
        raise FileNotFoundError(f"no build/pkg/faircall in {tree}: `make build/pkg` there makes it")
    return environment
