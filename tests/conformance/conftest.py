"""Conformance with the recorded cases, counted: one line per suite at the end of the run.

    hadoop: 252 passed, 0 failed, 12 deviations

A case counts as a deviation if it is in the table of `deviations.py` and the answer differs from
the recorded one where the table says that it may; the test of such a case passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from .deviations import deviation_of
from .recorded import GOLDEN, Case, Mismatch

Judge = Callable[[Case, list[Mismatch]], None]
SUITES = ("hadoop", "pulsar")


def pytest_configure(config: pytest.Config) -> None:
    if not any((GOLDEN / suite).is_dir() for suite in SUITES):
        raise pytest.UsageError(f"FAIRCALL_GOLDEN: {GOLDEN} holds none of {', '.join(SUITES)}")


@pytest.fixture
def judge(record_property: Callable[[str, object], None]) -> Judge:
    """Judges the mismatches of a case of the suite "hadoop", and has it counted."""
    record_property("golden", "hadoop")

    def decide(case: Case, mismatches: list[Mismatch]) -> None:
        deviation = deviation_of(case.component, case.name)
        allowed = deviation.ops if deviation else frozenset()
        assert [found for found in mismatches if found.op not in allowed] == []
        if mismatches:
            record_property("deviation", case.name)

    return decide


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "golden" in properties:
                kind = "deviations" if "deviation" in properties else outcome
                counts.setdefault(properties["golden"], Counter())[kind] += 1
    for suite, count in sorted(counts.items()):
        failed = count["failed"] + count["error"]
        terminalreporter.write_line(
            f"{suite}: {count['passed']} passed, {failed} failed, {count['deviations']} deviations"
        )
