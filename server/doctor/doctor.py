"""All checks, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import machine, python, shared_memory
from .findings import Finding, Patient, State

Check = Callable[[Patient], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    python.version,
    python.build,
    python.blas,
    machine.processors,
    machine.clock,
    machine.memory,
    machine.files,
    machine.backlog,
    machine.process_1,
    shared_memory.segments,
    shared_memory.mutexes,
    shared_memory.runtime_folder,
)


def examine(patient: Patient) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(patient)]


def is_fatal(findings: list[Finding]) -> bool:
    """Whether something will not work."""
    return any(each.state is State.FAIL for each in findings)
