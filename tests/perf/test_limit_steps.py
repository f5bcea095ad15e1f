"""What limits add to a call, counted: a few rounds of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from faircall.perf.throttle_cost import CONFIGURED

pytestmark = pytest.mark.slow

MOST = {"method": 180, "server, method, caller": 280}  # instructions, of some 5,000 a call
ALWAYS = ("Throttle.name", "PlainCharges.charge", "CallBook.freed", "Claims._draw", "Staging.stage")


def test_limits_that_do_not_bite_cost_few_instructions() -> None:
    """In the functions that limits are about; others do some things by the clock."""
    command = [sys.executable, "-m", "faircall.perf.limit_steps", "--rounds", "4"]
    found: dict[str, dict[str, float]] = {name: {} for name in CONFIGURED}
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        if not line.startswith(" "):
            of = found[line.partition(": ")[0]]
            continue
        module, function, instructions, _ = line.split()
        if (
            any(
                part in module for part in ("throttle", "limiter", "charges", "budgets", "blockers")
            )
            or function in ALWAYS
        ):
            of[function] = float(instructions)
    for name, functions in found.items():
        assert {*ALWAYS} <= {*functions}, run.stdout
        assert sum(functions.values()) <= MOST[name], run.stdout
