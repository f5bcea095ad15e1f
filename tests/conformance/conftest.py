"""Conformance with the recorded cases, counted at the end of the run: a suite, then its subjects.

    hadoop: 375 passed, 0 failed, 45 deviations
    hadoop, pure classes: 252 passed, 0 failed, 12 deviations
    hadoop, shared memory: 123 passed, 0 failed, 33 deviations

A case counts as a deviation if it is in the table of `deviations.py` (of `not_shared.py` for the
shared memory) and the answer differs from the recorded one where the table says that it may; the
test of such a case passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from .deviations import deviation_of
from .not_shared import rows_of
from .recorded import GOLDEN, Case, Mismatch

Judge = Callable[[Case, list[Mismatch]], None]
SUITES = ("hadoop", "pulsar")


def pytest_configure(config: pytest.Config) -> None:
    if not any((GOLDEN / suite).is_dir() for suite in SUITES):
        raise pytest.UsageError(f"FAIRCALL_GOLDEN: {GOLDEN} holds none of {', '.join(SUITES)}")


@pytest.fixture
def judge(record_property: Callable[[str, object], None]) -> Judge:
    """Judges what a case of the suite "hadoop" gave on the pure classes, and has it counted."""

    def allowed(case: Case) -> frozenset[str]:
        deviation = deviation_of(case.component, case.name)
        return deviation.ops if deviation else frozenset()

    return _judge("pure classes", allowed, record_property)


@pytest.fixture
def judge_shared(record_property: Callable[[str, object], None]) -> Judge:
    """The same for the shared memory."""

    def allowed(case: Case) -> frozenset[str]:
        return frozenset().union(*(row.ops for row in rows_of(case.component, case.name)))

    return _judge("shared memory", allowed, record_property)


def _judge(
    subject: str,
    allowed: Callable[[Case], frozenset[str]],
    record_property: Callable[[str, object], None],
) -> Judge:
    record_property("golden", ("hadoop", subject))

    def decide(case: Case, mismatches: list[Mismatch]) -> None:
        ops = allowed(case)
        assert [found for found in mismatches if found.op not in ops] == []
        if mismatches:
            record_property("deviation", case.name)

    return decide


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "golden" in properties:
                suite, subject = properties["golden"]
                kind = "deviations" if "deviation" in properties else outcome
                lines: list[tuple[str, ...]] = [(suite,), (suite, subject)]
                for line in lines:
                    counts.setdefault(line, Counter())[kind] += 1
    for line, count in sorted(counts.items()):
        failed = count["failed"] + count["error"]
        terminalreporter.write_line(
            f"{', '.join(line)}: {count['passed']} passed, {failed} failed, "
            f"{count['deviations']} deviations"
        )
