"""Four handler processes that claim in a race deliver, in the recorded cases, what was recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import pulsar_cases, pulsar_replay
from .pulsar_processes import HANDLERS, NAMED, ProcessReplay, named
from .pulsar_shared import why_not
from .recorded import Case

CASES = list(named(pulsar_cases.cases()))


def test_forty_cases_are_named_once_and_there() -> None:
    assert len(NAMED) == len(set(NAMED)) == 40
    known = {case.name for case in pulsar_cases.cases()}
    if not known:
        pytest.skip("FAIRCALL_GOLDEN has no cases of Pulsar")
    assert [name for name in NAMED if name not in known or why_not(name)] == []


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_processes(case: Case, record_property: Callable[[str, object], None]) -> None:
    record_property("golden", ("pulsar", "handler processes"))
    assert pulsar_replay.mismatches(case, ProcessReplay) == []


def test_more_than_one_process_claims() -> None:
    """Else the race would be none."""
    case = next((case for case in CASES if case.name == "MP-01"), None)
    if case is None:
        pytest.skip("FAIRCALL_GOLDEN has no cases of Pulsar")
    replay = ProcessReplay(case)
    try:
        replay.run(case.fields["timeline"])
        assert sum(replay.by_handler) == 40
        assert len(replay.by_handler) == HANDLERS
        assert min(replay.by_handler) > 0
    finally:
        replay.close()
