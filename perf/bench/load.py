"""Runs a plan by the generator in C, or by the one in Python where there is no C compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from .native import LoadFailed, Progress, program, run_native
from .plan import Plan
from .portable import run_portable
from .result import Result

NO_COMPILER = (
    "no C compiler (cc, or $CC): load comes from a generator in Python, which is slower and later; "
    "figures are of the generator as much as of the server"
)


@functools.cache
def _program(note: Callable[[str], object]) -> Path | None:
    try:
        found = program()
    except LoadFailed as error:
        note(f"{error}; load comes from a generator in Python")
        return None
    if found is None:
        note(NO_COMPILER)
    return found


def run_plan(plan: Plan, note: Callable[[str], object], progress: Progress | None = None) -> Result:
    """What the plan found. `note` is told, once, if no generator in C can be had. LoadFailed."""
    path = _program(note)
    return run_native(path, plan, progress) if path else run_portable(plan, progress)
