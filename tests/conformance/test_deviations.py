"""What we do in the cases where the recorded behaviour is a defect, one test for each answer."""

from __future__ import annotations

import pytest

from faircall.scheduling import decay, summary
from faircall.scheduling.admission import Admission
from faircall.scheduling.call_queue import CallQueue, Parts
from faircall.scheduling.conf import Conf
from faircall.scheduling.cost import NO_TIMES, PhaseTimes, WeightedTimeCostProvider
from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.decay_settings import DecaySettings
from faircall.scheduling.errors import BadValue, NotBuilt
from faircall.scheduling.identity import UNKNOWN, Caller, CallerContextIdentityProvider
from faircall.scheduling.multiplexer import WeightedRoundRobinMultiplexer
from faircall.scheduling.queues import FairCallQueue, QueueSettings
from faircall.scheduling.units import TimeUnit

from .deviations import DEVIATIONS, READINGS, deviation_of
from .pure_queues import Call, PureCallQueue
from .recorded import Case, cases

ALICE, BOB = Caller("alice"), Caller("bob")


def scheduler(**settings: object) -> DecayRpcScheduler:
    """A decay scheduler with 4 levels unless said otherwise."""
    return DecayRpcScheduler(DecaySettings(**{"levels": 4, **settings}))  # type: ignore[arg-type]


def fair_queue(levels: int, capacity: int, weights: list[int]) -> FairCallQueue[Call]:
    """A fair queue with the given multiplexer weights."""
    settings = QueueSettings(levels=levels, capacity=capacity)
    return FairCallQueue(settings, WeightedRoundRobinMultiplexer(weights))


def test_every_row_is_shown_by_a_test() -> None:
    shown = {deviation.shown_by for deviation in DEVIATIONS} | {row[2] for row in READINGS}
    assert shown <= {name for name in globals() if name.startswith("test_")}


def test_a_case_has_at_most_one_row() -> None:
    files = ("decay_scheduler", "multiplexer", "fair_call_queue", "call_queue_manager", "config")
    for file in files:
        for case in cases("hadoop", f"{file}.json"):
            rows = [row for row in DEVIATIONS if deviation_of(case.component, case.name) is row]
            assert len(rows) <= 1
    assert deviation_of("multiplexer", "all_weights_zero") is None


def test_a_missing_identity_is_charged_like_any_other() -> None:
    for subject, caller in (
        (scheduler(), Caller(None)),
        (scheduler(identity_provider=CallerContextIdentityProvider()), Caller(None, None)),
    ):
        subject.complete(caller, 0, NO_TIMES)
        assert summary.dump(subject)["users"] == {UNKNOWN: {"decayed": 1, "raw": 1}}
        assert subject.level_of(caller) == 3


def test_a_call_of_a_level_that_is_gone_counts_for_the_nearest() -> None:
    subject = scheduler(levels=2)
    for level in (5, -1):
        subject.complete(ALICE, level, PhaseTimes.of({"processing": 8_000_000}))
    subject.sweep()
    assert subject.response_times.last_count.tolist() == [1, 1]
    assert subject.response_times.mean.tolist() == [8.0, 8.0]


@pytest.mark.parametrize(("given", "taken_for"), [(-1, 0), (-9, 0), (2, 1), (7, 1)])
def test_a_level_that_does_not_exist_is_taken_for_the_nearest(given: int, taken_for: int) -> None:
    for operation in ("put", "add", "offer"):
        queue = fair_queue(2, 4, [2, 1])
        assert getattr(queue, operation)(Call("a", given)) in (Admission.QUEUED, True)
        assert queue.sizes[taken_for] == 1


def test_a_weight_of_zero_skips_its_level() -> None:
    for weights, expected in (
        ([0, 1], [1, 1, 1, 1]),
        ([2, 1, 0], [0, 0, 1, 0]),
        ([1, 0, 1], [0, 2, 0, 2]),
    ):
        multiplexer = WeightedRoundRobinMultiplexer(weights)
        assert [multiplexer.draw() for _ in range(4)] == expected


def test_a_level_of_weight_zero_is_served_when_the_others_are_empty() -> None:
    queue = fair_queue(2, 20, [2, 0])
    for number in range(6):
        queue.put(Call(f"c{number}", number % 2))
    taken = [queue.poll() for _ in range(6)]
    assert [call.level for call in taken if call] == [0, 0, 0, 1, 1, 1]


def test_a_negative_weight_is_refused() -> None:
    conf = Conf({"ipc.faircallqueue.multiplexer.weights": "2,-1"})
    with pytest.raises(BadValue, match="negative weight"):
        WeightedRoundRobinMultiplexer.from_conf(2, conf)
    with pytest.raises(BadValue, match="negative weight"):
        FairCallQueue.from_conf(QueueSettings(levels=2, capacity=4, conf=conf))


def test_32_levels_have_positive_default_weights() -> None:
    multiplexer = WeightedRoundRobinMultiplexer.from_conf(32, Conf({}))
    assert multiplexer.weights == [2**exponent for exponent in range(31, -1, -1)]


def test_a_decay_factor_that_is_not_a_number_is_refused() -> None:
    conf = Conf({"ipc.decay-scheduler.decay-factor": "NaN"})
    with pytest.raises(BadValue, match="decay-factor"):
        DecaySettings.from_conf(1, conf)


def test_totals_saturate() -> None:
    subject = scheduler(cost_provider=WeightedTimeCostProvider())
    heavy = PhaseTimes.of({"lockfree": 5 * 10**18})
    for caller in (ALICE, BOB):
        subject.complete(caller, 0, heavy)
    assert subject.ledger.ordinary.decayed == 2**63 - 1
    assert [subject.level_of(caller) for caller in (ALICE, BOB)] == [3, 3]
    subject.complete(ALICE, 0, heavy)
    assert subject.ledger.cost("alice") == 2**63 - 1


def test_thresholds_are_milliseconds_whatever_the_unit_of_the_means() -> None:
    for unit, mean in ((TimeUnit.MICROSECONDS, 101_000.0), (TimeUnit.MILLISECONDS, 101.0)):
        subject = scheduler(
            levels=1,
            backoff_mode="hadoop",
            backoff_by_response_time=True,
            backoff_thresholds_ms=[100],
            time_unit=unit,
        )
        subject.complete(ALICE, 0, PhaseTimes.of({"processing": 2_000_000}))
        subject.sweep()
        assert not subject.backs_off(0)
        subject.sweep()
        subject.response_times.fold(0.0)
        subject.complete(ALICE, 0, PhaseTimes.of({"processing": 101_000_000}))
        subject.sweep()
        assert subject.response_times.mean.tolist() == [mean]
        assert subject.backs_off(0)


@pytest.mark.parametrize(
    "bad",
    [
        {"scheduler.priority.levels": "0"},
        {"decay-scheduler.thresholds": "5"},
        {"callqueue.capacity.weights": "1,2"},
        {"faircallqueue.multiplexer.weights": "1", "callqueue.overflow.trigger.failover": "true"},
    ],
)
def test_a_swap_that_fails_changes_nothing(bad: dict[str, str]) -> None:
    fields = {"queue": "fair", "scheduler": "decay", "capacity": 40}
    subject = PureCallQueue(Case("call_queue_manager", "swap_bad", fields))
    calls: CallQueue[Call] = subject.calls
    calls.scheduler.complete(ALICE, 0, NO_TIMES)
    before = (calls.putting, calls.taking, calls.scheduler, calls.failover)
    conf = Conf({f"ipc.{key}": value for key, value in bad.items()})
    with pytest.raises((BadValue, NotBuilt)):
        calls.swap(Parts.from_conf(conf, FairCallQueue, DecayRpcScheduler, 40))
    assert (calls.putting, calls.taking, calls.scheduler, calls.failover) == before
    assert isinstance(calls.scheduler, DecayRpcScheduler)
    assert summary.metrics(calls.scheduler)["CallVolume"] == ("counter", 1)


def test_default_thresholds_are_the_exact_halves() -> None:
    assert decay.default_thresholds(4) == [0.125, 0.25, 0.5]
    conf = Conf({"ipc.decay-scheduler.thresholds": "13,25,50"})
    assert list(DecaySettings.from_conf(4, conf).thresholds) == [0.13, 0.25, 0.5]


def test_two_users_of_exactly_half_are_both_in_the_last_level() -> None:
    assert decay.level_of(50, 100, decay.default_thresholds(4)) == 3
    assert decay.level_of(49, 100, decay.default_thresholds(4)) == 2


def test_the_two_response_time_modes_on_the_example_of_the_guide() -> None:
    """The threshold of level 1 is 10 s, its mean 12 s; the other levels are fast."""
    decisions = {}
    for mode in ("guide", "hadoop"):
        subject = scheduler(
            backoff_by_response_time=True,
            backoff_mode=mode,
            backoff_thresholds_ms=[10_000] * 4,
        )
        for level, seconds in enumerate((1, 12, 1, 1)):
            subject.complete(ALICE, level, PhaseTimes.of({"queue": seconds}, TimeUnit.SECONDS))
        subject.sweep()
        decisions[mode] = [subject.backs_off(level) for level in range(4)]
    assert decisions["guide"] == [False, False, True, True]
    assert decisions["hadoop"] == [False, True, True, True]
