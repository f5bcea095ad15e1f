"""What Pulsar says that its throttling may exceed: here, on real processes, by 0."""

from __future__ import annotations

from typing import Any

import pytest

from faircall.server.settings.declaration import ConfigError
from faircall.server.settings.load import load_settings

from . import pulsar_cases
from .pulsar_processes import COMPATIBLE, HANDLERS, NAMED, ProcessReplay
from .pulsar_replay import Step
from .recorded import Case

PERIODS = 4


def delivered(rate: dict[str, int], name: str, *arrivals: dict[str, Any]) -> list[int]:
    """What goes in each of PERIODS periods of a method under `rate`."""
    timeline: list[Step] = [
        {"t": 0, "op": "arrive", "topic": "s/m", "sub": "ann", **one} for one in arrivals
    ]
    config = {"topics": {"s/m": {"topic": {"msg": -1, "bytes": -1, **rate}}}}
    fields = {
        "config": config | {"processes": HANDLERS},
        "until_ms": 1000 * PERIODS,
        "window_ms": 1000,
    }
    replay = ProcessReplay(Case("own", name, fields))
    try:
        replay.run(timeline)
        return replay.windows(name)
    finally:
        replay.close()


def test_bytes_are_not_exceeded() -> None:
    """Sizes are known before anything goes."""
    found = delivered({"bytes": 1000}, "bytes", {"n": 100, "bytes": 50})
    assert found == [1000] * PERIODS


def test_bytes_of_calls_that_do_not_fit_are_paid_back() -> None:
    """The last one of a period may be larger than the room left: less than one call is owed."""
    found = delivered({"bytes": 1000}, "bytes", {"n": 100, "bytes": 300})
    assert found == [1200, 900, 900, 1200]
    assert all(sum(found[:n]) < 1000 * n + 300 for n in range(1, PERIODS + 1))


def test_concurrent_handlers_do_not_exceed_a_limit() -> None:
    """One claim at a time looks and charges: no two see the same room."""
    found = delivered({"msg": 50}, "total", *[{"n": 100, "proc": at} for at in range(HANDLERS)])
    assert found == [50] * PERIODS


@pytest.mark.parametrize(("name", "key"), COMPATIBLE.items())
def test_every_case_of_bulk_reads_passes_or_is_refused(name: str, key: str) -> None:
    assert (name in NAMED) is not bool(key)
    if key:
        with pytest.raises(ConfigError, match="there are no bulk reads"):
            load_settings({key: (100, "--set")}, {})


def test_all_cases_of_bulk_reads_are_named() -> None:
    cases = pulsar_cases.cases()
    known = {case.name for case in cases if case.fields["profile"] == "pulsar-compat"}
    if not cases:
        pytest.skip("FAIRCALL_GOLDEN has no cases of Pulsar")
    assert known == set(COMPATIBLE)
