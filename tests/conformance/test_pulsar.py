"""The dispatch budget delivers, in every recorded case, what was recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import pulsar_cases, pulsar_replay, pulsar_variants
from .pulsar_deviations import deviation_of
from .recorded import Case, Mismatch

Judge = Callable[[Case, list[Mismatch]], None]


@pytest.fixture
def judge_pulsar(record_property: Callable[[str, object], None]) -> Judge:
    """Judges the mismatches of a case of the suite "pulsar", and has it counted."""
    record_property("golden", ("pulsar", "pure classes"))

    def decide(case: Case, mismatches: list[Mismatch]) -> None:
        assert mismatches == [] or deviation_of(case.component, case.name)
        if mismatches:
            record_property("deviation", case.name)

    return decide


@pulsar_cases.parameters()
def test_dispatch(case: Case, judge_pulsar: Judge) -> None:
    judge_pulsar(case, pulsar_replay.mismatches(case))


@pulsar_cases.parameters("variants")
def test_variants(case: Case, judge_pulsar: Judge) -> None:
    judge_pulsar(case, pulsar_variants.mismatches(case))
