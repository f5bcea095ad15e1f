"""The pure classes answer every case recorded from Hadoop as it did, but for `deviations.py`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from faircall.scheduling.cost import Phase, WeightedTimeCostProvider
from faircall.scheduling.decay_settings import DecaySettings
from faircall.scheduling.identity import Caller, UserIdentityProvider
from faircall.scheduling.multiplexer import WeightedRoundRobinMultiplexer
from faircall.scheduling.queues import FairCallQueue
from faircall.scheduling.selection import select

from . import oracle
from .conftest import Judge
from .pure_queues import PureCallQueue, PureFairCallQueue
from .pure_schedulers import PureDecay, PureHistory, conf_of, times_of
from .recorded import Case, Mismatch, parameters, replay, same


@parameters("hadoop", "decay_scheduler.json")
def test_decay_scheduler(case: Case, judge: Judge) -> None:
    judge(case, replay(case, lambda: PureDecay(case), oracle.answer))


@parameters("hadoop", "spec_derived/history_scheduler.json")
def test_history_scheduler(case: Case, judge: Judge) -> None:
    judge(case, replay(case, lambda: PureHistory(case), oracle.answer))


@parameters("hadoop", "call_queue_manager.json")
def test_call_queue_manager(case: Case, judge: Judge) -> None:
    judge(case, replay(case, lambda: PureCallQueue(case), oracle.answer))


@parameters("hadoop", "fair_call_queue.json")
def test_fair_call_queue(case: Case, judge: Judge) -> None:
    built: list[PureFairCallQueue] = []

    def build() -> PureFairCallQueue:
        built.append(PureFairCallQueue(case))
        return built[0]

    mismatches = replay(case, build, oracle.answer)
    for subject in built:
        mismatches += compared(case, "expect_capacities", lambda: built[0].queue.capacities)
        mismatches += compared(case, "expect_jmx", subject.jmx)
    judge(case, mismatches)


@parameters("hadoop", "multiplexer.json")
def test_multiplexer(case: Case, judge: Judge) -> None:
    def draw() -> dict[str, Any]:
        multiplexer = WeightedRoundRobinMultiplexer.from_conf(case.fields["levels"], conf_of(case))
        drawn = [multiplexer.draw() for _ in range(case.fields["draws"])]
        runs = [[level, len(list(run))] for level, run in groupby(drawn)]
        sequence = {"sequence_rle": runs} if case.fields.get("rle") else {"sequence": drawn}
        return {"weights": multiplexer.weights, **sequence}

    recorded, answered = case.fields["expect"], oracle.answer(draw)
    assert isinstance(answered, dict)
    if "error" in answered or "error" in recorded:
        judge(case, mismatch("construct", recorded, answered))
    else:
        judge(
            case,
            [
                found
                for part, value in recorded.items()
                for found in mismatch(part.removesuffix("_rle"), value, answered[part])
            ],
        )


@parameters("hadoop", "cost_provider.json")
def test_cost_provider(case: Case, judge: Judge) -> None:
    def weights() -> dict[str, int]:
        built = WeightedTimeCostProvider.from_conf(conf_of(case)).weights
        return {phase.name.lower(): weight for phase, weight in zip(Phase, built, strict=True)}

    mismatches = compared(case, "expect_weights", weights)
    for call in case.fields["calls"]:
        if "expect_cost" in call:
            cost = WeightedTimeCostProvider.from_conf(conf_of(case)).cost(times_of(call))
            mismatches += mismatch("cost", call["expect_cost"], cost)
    judge(case, mismatches)


@parameters("hadoop", "identity.json")
def test_identity(case: Case, judge: Judge) -> None:
    provider = UserIdentityProvider()
    judge(
        case,
        [
            found
            for call in case.fields["calls"]
            for found in mismatch(
                "identity",
                call["expect"],
                provider.identity_of(Caller(call["user"])) or "<null>",
            )
        ],
    )


@parameters("hadoop", "config.json")
def test_config(case: Case, judge: Judge) -> None:
    target = {
        "scheduler": scheduler_settings,
        "call_queue_manager": call_queue,
        "server": selection,
    }[case.fields["target"]]
    judge(case, compared(case, "expect", lambda: target(case), op="construct"))


def scheduler_settings(case: Case) -> dict[str, Any]:
    """The settings of a decay scheduler, in recorded form."""
    settings = DecaySettings.from_conf(case.fields["levels"], conf_of(case))
    return {
        "decay_factor": settings.factor,
        "period_ms": settings.period_ms,
        "thresholds": settings.thresholds,
        "backoff_by_response_time": settings.backoff_by_response_time,
        "backoff_thresholds_ms": settings.backoff_thresholds_ms,
        "service_users": sorted(settings.service_users),
        "top_user_count": settings.top_users,
        "identity_provider": type(settings.identity_provider).__name__,
        "cost_provider": type(settings.cost_provider).__name__,
        "metrics_time_unit": settings.time_unit.name,
    }


def call_queue(case: Case) -> dict[str, Any]:
    """A call queue built from a configuration, in recorded form."""
    calls = PureCallQueue(case).calls
    queue: Any = calls.putting
    shown = {
        "queue": type(queue).__name__,
        "scheduler": type(calls.scheduler).__name__,
        "capacities": queue.capacities,
        "failover": calls.failover,
        "failover_in_queue": isinstance(queue, FairCallQueue) and queue.settings.failover,
        "backoff": calls.backoff,
    }
    if "scheduler_levels" in case.fields["expect"]:
        scheduler: Any = calls.scheduler
        shown["scheduler_levels"] = getattr(scheduler, "settings", scheduler).levels
    return shown


def selection(case: Case) -> dict[str, Any]:
    """What the server of a port uses, in recorded form."""
    values = {key: oracle.importable(text) for key, text in case.values(oracle.NAMESPACE).items()}
    selected = select(values, case.fields["port"])
    return {
        "queue": selected.queue.rpartition(":")[2],
        "scheduler": selected.scheduler.rpartition(":")[2],
        "scheduler_key_written": selected.scheduler_inferred,
        "backoff": selected.backoff,
    }


def compared(
    case: Case, field: str, answered: Callable[[], object], op: str = ""
) -> list[Mismatch]:
    """The mismatch, if any, of a field that a case may have."""
    if field not in case.fields:
        return []
    return mismatch(op or field, case.fields[field], oracle.answer(answered))


def mismatch(op: str, recorded: object, answered: object) -> list[Mismatch]:
    """The mismatch of two values, if they are not the same."""
    return [] if same(recorded, answered) else [Mismatch(0, op, recorded, answered)]


def test_a_wrong_answer_is_a_mismatch() -> None:
    """The comparison itself: a doctored case must not pass."""
    steps = [
        {"op": "put", "id": "a", "prio": 0, "expect": "ok"},
        {"op": "poll", "expect": "b"},
        {"op": "size", "expect": False},
    ]
    case = Case("fair_call_queue", "doctored", {"levels": 1, "capacity": 2, "steps": steps})
    found = replay(case, lambda: PureFairCallQueue(case), oracle.answer)
    assert [(one.op, one.recorded, one.answered) for one in found] == [
        ("poll", "b", "a"),
        ("size", False, 0),
    ]
