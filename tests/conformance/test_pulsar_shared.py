"""The call table in shared memory delivers, in the recorded cases, what was recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from . import pulsar_cases, pulsar_replay
from .pulsar_shared import NOT_SHARED, SharedReplay, why_not
from .recorded import GOLDEN, OWN, Case


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Callable[[Case, bool], None]:
    """Has a case counted, among the deviations if it cannot be asked of the table."""
    record_property("golden", ("pulsar", "shared memory"))

    def counted(case: Case, deviates: bool) -> None:
        if deviates:
            record_property("deviation", case.name)

    return counted


@pulsar_cases.parameters()
def test_dispatch(case: Case, count: Callable[[Case, bool], None]) -> None:
    found = [] if why_not(case.name) else pulsar_replay.mismatches(case, SharedReplay)
    count(case, bool(why_not(case.name)))
    assert found == []


@pytest.mark.parametrize("pattern", [one.pattern for one in NOT_SHARED])
def test_no_row_is_stale(pattern: str) -> None:
    """Each of those cases is there, and differs."""
    for case in pulsar_cases.cases():
        if case.name == pattern:
            with contextlib.suppress(KeyError):  # an interleaving without a quota that was read
                assert pulsar_replay.mismatches(case, SharedReplay) != []
            return
    assert GOLDEN != OWN, f"there is no case {pattern}"
