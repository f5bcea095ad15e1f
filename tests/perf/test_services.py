"""The service for load generators: a known amount of work, the same in every process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.perf import services
from faircall.workers.context import Worker
from faircall.workers.invoke import invoke


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The turns that calls have spun, with 100 turns to the ms."""
    spun: list[int] = []
    monkeypatch.setattr(services, "_turns_per_ms", 0)
    monkeypatch.setenv(services.TURNS_VARIABLE, "100")
    monkeypatch.setattr(services, "spin", lambda turns: spun.append(turns))
    return spun


@pytest.mark.parametrize(
    ("method", "spun"), [("spin1", [100]), ("spin10", [1000]), ("spin20", [2000]), ("echo", [])]
)
def test_each_method_spins_its_milliseconds_and_echoes(
    turns: list[int], method: str, spun: list[int]
) -> None:
    assert invoke(services.service, method, b'["xx"]').body == b'"xx"'
    assert turns == spun


def test_a_load_generator_may_send_no_value(turns: list[int]) -> None:
    assert invoke(services.service, "spin1", b"").body == b"null"


def test_calibration_counts_the_fastest_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter([40_000_000, *[50_000_000] * 1000])
    monkeypatch.setattr(services, "_spin_cpu_ns", lambda turns: next(costs))
    trial: Callable[[], int] = services.measured_turns_per_ms
    assert trial() == 500
    assert trial() == 400


def test_the_start_hook_calibrates_against_the_real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(services.TURNS_VARIABLE, raising=False)
    monkeypatch.setattr(services, "_turns_per_ms", 0)
    services.service.start(Worker())
    first = services.turns_per_ms()
    assert first > 100
    assert services.turns_per_ms() == first


def test_spinning_cannot_be_skipped() -> None:
    assert services.spin(0) == 1
    assert services.spin(3) != services.spin(2)
