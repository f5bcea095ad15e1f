"""A process of its own in which scenarios are endured: forking it costs half as much as forking the
test runner, which has more memory and threads.

One line in, one line out: `[kind, name, fate, number]`, and `[count, traceback]`.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from . import handlers, janitors, readers, twice
from .kill import Fate
from .scenario import Scenario, endure_bytecodes, endure_stores

ROOT = Path(__file__).parents[2]
SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *readers.SCENARIOS,
        *handlers.SCENARIOS,
        *janitors.SCENARIOS,
        *twice.SCENARIOS,
    )
}
KINDS: dict[str, Callable[[Scenario, Fate, int], int]] = {
    "stores": endure_stores,
    "bytecodes": endure_bytecodes,
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

    def stores(self, name: str, fate: Fate, step: int = 1) -> int:
        """`endure_stores` of the scenario with this `name`."""
        return self._ask("stores", name, fate, step)

    def bytecodes(self, name: str, fate: Fate, third: int) -> int:
        """`endure_bytecodes` of the scenario with this `name`."""
        return self._ask("bytecodes", name, fate, third)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(timeout=10) == 0

    def _ask(self, kind: str, name: str, fate: Fate, number: int) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([kind, name, fate.name, number]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"the arena ended: {self._process.wait(timeout=10)}"
        count, error = json.loads(line)
        assert error == ""
        return int(count)


def serve() -> None:
    """The arena's end."""
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        kind, name, fate, number = json.loads(line)
        try:
            answer = [KINDS[kind](SCENARIOS[name], Fate[fate], number), ""]
        except Exception:
            answer = [0, traceback.format_exc()]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
