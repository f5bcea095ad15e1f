"""Every operation of the table can be measured, and has a name of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faircall.perf import micro_wire
from faircall.perf.measurement import Measurement, best_us
from faircall.perf.micro import Bench, measurements


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_every_operation_runs_again_and_again(bench: Bench) -> None:
    names = []
    for measurement in measurements(bench):
        measurement.run()
        measurement.run()
        names.append(measurement.name)
    assert len(set(names)) == len(names)
    kinds = {name.partition(":")[0] for name in names}
    assert kinds >= {"mutex", "call", "pages", "names", "queue", "doorbell", "wire", "codec"}
    assert bench.table.recovery.audit() == []


def test_a_figure_is_that_of_a_single_one() -> None:
    runs: list[int] = []
    found = best_us(Measurement("sum", 1000, lambda: runs.append(sum(range(1000)))), rounds=2)
    assert len(runs) > 2
    assert 0 < found < 1  # a thousandth of what a run takes


@pytest.mark.parametrize("framing", micro_wire.FRAMED)
def test_an_exchange_takes_as_many_calls_as_were_sent(framing: str) -> None:
    exchanger = micro_wire.Exchanger(micro_wire.FRAMED[framing])
    exchanger.exchange()
    exchanger.exchange(3)


def test_what_is_no_call_is_not_measured() -> None:
    with pytest.raises(TypeError, match="not a call"):
        micro_wire.Exchanger(b"Content-Length: x\r\n\r\n").exchange()
