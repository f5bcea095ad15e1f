"""A process of its own in which scenarios are endured: forking it costs half as much as forking the
test runner, which has more memory and threads.

One line in, one line out: `[kind, name, {fate: [numbers]}]`, and `[counts, traceback]`.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from . import express, groups, handlers, janitors, readers, twice
from .kill import Fate
from .scenario import Scenario, endure_bytecodes, endure_stores

ROOT = Path(__file__).parents[2]
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *readers.SCENARIOS,
        *handlers.SCENARIOS,
        *janitors.SCENARIOS,
        *groups.SCENARIOS,
        *express.SCENARIOS,
        *twice.SCENARIOS,
    )
}
REBUILDS = [scenario.name for scenario in twice.SCENARIOS]
OPERATIONS = [name for name in SCENARIOS if name not in REBUILDS]


class Arena:
    """The test's end of the line."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def stores(self, name: str, fates: Mapping[Fate, slice]) -> dict[Fate, int]:
        """`endure_stores` of the scenario with this `name`."""
        samples = {fate.name: [sample.start, sample.step] for fate, sample in fates.items()}
        return {Fate[fate]: count for fate, count in self._ask("stores", name, samples).items()}

    def bytecodes(self, name: str, fate: Fate, third: int) -> int:
        """`endure_bytecodes` of the scenario with this `name`."""
        return self._ask("bytecodes", name, {fate.name: [third]})[fate.name]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(timeout=10) == 0

    def _ask(self, kind: str, name: str, fates: Mapping[str, list[int]]) -> dict[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([kind, name, fates]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"the arena ended: {self._process.wait(timeout=10)}"
        counts, error = json.loads(line)
        assert error == ""
        return {fate: int(count) for fate, count in counts.items()}


def _stores(scenario: Scenario, fates: Mapping[str, list[int]]) -> dict[str, int]:
    samples = {Fate[fate]: slice(start, None, step) for fate, (start, step) in fates.items()}
    return {fate.name: count for fate, count in endure_stores(scenario, samples).items()}


def _bytecodes(scenario: Scenario, fates: Mapping[str, list[int]]) -> dict[str, int]:
    return {fate: endure_bytecodes(scenario, Fate[fate], third) for fate, (third,) in fates.items()}


KINDS = {"stores": _stores, "bytecodes": _bytecodes}


def serve() -> None:
    """The arena's end."""
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        kind, name, fates = json.loads(line)
        try:
            answer = [KINDS[kind](SCENARIOS[name], fates), ""]
        except Exception:
            answer = [{}, traceback.format_exc()]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
