"""Runs suites: every case of a suite, `repeats` times around, so that a slow minute spoils none."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...client.address import Address
from .document import FORMAT, VERSION, case_document
from .environment import environment
from .measure import Bench, Measured, measure_micro
from .scenario import Case, Scenario, ScenarioError
from .sweeps import grids_of, knee_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`address` is None for servers of its own; `seconds` and `repeats` are 0 for those that a
    scenario says."""

    address: Address | None = None
    repeats: int = 0
    seconds: float = 0.0
    threads: int = 1
    only: Sequence[str] = ()  # label=value: of each label that is named, one of the values


class Teller:
    """Progress on standard error: one line that changes on a terminal, else a line a case."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty() and not quiet
        self._about = ""

    def note(self, text: str) -> None:
        if not self._quiet:
            self._clear()
            print(text, file=sys.stderr)

    def begin(self, about: str) -> None:
        self._about = about
        if self._live:
            self._show(about)
        else:
            self.note(about)

    def tick(self, second: float, ok: int, other: int) -> None:
        if self._live:
            failed = f", {other:,} not ok" if other else ""
            self._show(f"{self._about}  {second:.0f} s  {ok:,} calls/s{failed}")

    def end(self) -> None:
        self._clear()

    def _show(self, text: str) -> None:
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def chosen(scenario: Scenario, options: Options) -> Scenario:
    """With the cases that the options leave, and their seconds. ScenarioError if none is left."""
    wanted: dict[str, set[str]] = {}
    for text in options.only:
        label, _, value = text.partition("=")
        wanted.setdefault(label, set()).add(value)
    cases = [case for case in scenario.cases if _has(case, wanted) and _fits(case, options)]
    if not cases:
        raise ScenarioError(f"suite {scenario.name}: no case is left by --only and --url")
    if options.seconds:
        cases = [_shortened(case, options.seconds) for case in cases]
    return replace(scenario, cases=cases)


def _has(case: Case, wanted: Mapping[str, set[str]]) -> bool:
    """Of each label one of the wanted values."""
    return all(str(case.labels.get(label)) in values for label, values in wanted.items())


def _fits(case: Case, options: Options) -> bool:
    """A server elsewhere has one framing, and what stands in the settings of ours has no effect."""
    if options.address is None:
        return True
    framing = "http" if options.address.target else "lines"
    fits = "framing" not in case.labels or framing == case.spec.framing
    return fits and not case.spec.bare


def _shortened(case: Case, seconds: float) -> Case:
    warm_up_s = min(case.spec.warm_up_s, seconds / 2)
    spec = msgspec.structs.replace(case.spec, seconds=seconds, warm_up_s=warm_up_s)
    return Case(case.labels, spec)


def run(scenarios: Sequence[Scenario], options: Options, teller: Teller) -> dict[str, Any]:
    """The document of the run. LoadFailed, NotServing."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    machine = environment()
    suites = [_suite(scenario, options, teller) for scenario in scenarios]
    return {
        FORMAT: VERSION,
        "started": started,
        "target": str(options.address) if options.address else "a server for each case",
        "repeats": max(suite["repeats"] for suite in suites),
        "environment": machine,
        "suites": suites,
    }


def _suite(scenario: Scenario, options: Options, teller: Teller) -> dict[str, Any]:
    found: list[list[Measured]] = [[] for _ in scenario.cases]
    repeats, began = options.repeats or scenario.repeats, time.monotonic()
    steps = len(scenario.cases) * repeats
    for repeat in range(repeats):
        bench = Bench(options.address, options.threads, teller.note, teller.tick)
        for number, case in enumerate(scenario.cases):
            labels = " ".join(f"{name}={value}" for name, value in case.labels.items())
            step = repeat * len(scenario.cases) + number + 1
            teller.begin(f"[{step}/{steps}] {scenario.name} {labels}".rstrip())
            found[number].append(_measured(scenario, case, bench, repeat))
    teller.end()
    cases = [
        case_document(case.labels, measured)
        for case, measured in zip(scenario.cases, found, strict=True)
    ]
    return {
        "name": scenario.name,
        "about": scenario.about,
        "took_s": round(time.monotonic() - began, 1),
        "repeats": repeats,
        "knee": knee_of(scenario.knee, cases) if scenario.knee else None,
        "grids": grids_of(scenario.grid, cases) if scenario.grid else None,
        "cases": cases,
    }


def _measured(scenario: Scenario, case: Case, bench: Bench, repeat: int) -> Measured:
    if scenario.kind == "micro":
        return Measured(dict(measure_micro()))
    return bench.measure(case.spec, repeat + 1)
