"""The settings of the schedulers and of the cost provider; part of `config_ipc.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .settings import derived
from .settings.declaration import Derived, integer, ms, setting
from .settings.kinds import FLAG, NUMBER, choice
from .settings.lists import DURATIONS, INTEGERS, NAMES, PERCENTS

INT_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayScheduler:
    """DecayRpcScheduler: a caller's level follows from its share of the decayed costs."""

    period_ms: int = ms(
        5000,
        "Time from one sweep, in which all costs decay, to the next.",
        1,
        INT_MOST,
        key="decay-scheduler.period-ms",
        hadoop="decay-scheduler.period-ms",
        old_names=("faircallqueue.decay-scheduler.period-ms",),
        live=True,
    )
    decay_factor: float = setting(
        NUMBER,
        0.5,
        "What a sweep leaves of a cost.",
        key="decay-scheduler.decay-factor",
        hadoop="decay-scheduler.decay-factor",
        old_names=("faircallqueue.decay-scheduler.decay-factor",),
        above=0,
        below=1,
        live=True,
    )
    thresholds: tuple[float, ...] = setting(
        PERCENTS,
        Derived("ascending by a factor of 2 (`12.5,25,50`)", derived.thresholds),
        "Share of all costs at which the next level begins, one less than there are levels"
        " (Hadoop: integers).",
        key="decay-scheduler.thresholds",
        hadoop="decay-scheduler.thresholds",
        old_names=("faircallqueue.decay-scheduler.thresholds",),
        unit="%",
        live=True,
    )
    charge: Literal["arrival", "completion"] = setting(
        choice("arrival", "completion"),
        "arrival",
        "When a call is charged: its 1, or its method's mean, on arrival (and what is left of its"
        " cost on completion); or all on completion, which is Hadoop's way.",
        key="decay-scheduler.charge",
    )
    charge_refused: bool = setting(
        FLAG,
        True,
        "Charge calls that are refused, too, where calls are charged on arrival: it keeps the level"
        " of a flood.",
        key="decay-scheduler.charge-refused",
        live=True,
    )
    service_users: tuple[str, ...] = setting(
        NAMES,
        (),
        "Callers on level 0, or before it within `scheduler.service-users.max-share`, always;"
        " their costs count for nobody's share.",
        key="decay-scheduler.service-users",
        hadoop="decay-scheduler.service-users",
        live=True,
    )
    metrics_top_user_count: int = integer(
        10,
        "The heaviest callers that statistics show one by one.",
        1,
        10_000,
        key="decay-scheduler.metrics.top.user.count",
        hadoop="decay-scheduler.metrics.top.user.count",
        hadoop_absolute=True,
        live=True,
    )
    backoff_responsetime_enable: bool = setting(
        FLAG,
        False,
        "Refuse calls of lower levels while a level's mean response time is above its threshold.",
        key="decay-scheduler.backoff.responsetime.enable",
        hadoop="decay-scheduler.backoff.responsetime.enable",
        live=True,
    )
    backoff_responsetime_mode: Literal["guide", "hadoop"] = setting(
        choice("guide", "hadoop"),
        "guide",
        "guide: lower levels, true mean; hadoop: the slow level itself too, and Hadoop's mean.",
        key="decay-scheduler.backoff.responsetime.mode",
        live=True,
    )
    backoff_responsetime_thresholds_ms: tuple[int, ...] = setting(
        DURATIONS,
        Derived("10 s more with each level (`10s,20s,30s,40s`)", derived.response_times),
        "These thresholds, one for each level: milliseconds, or with ns, us, ms, s, m, h, d.",
        key="decay-scheduler.backoff.responsetime.thresholds",
        hadoop="decay-scheduler.backoff.responsetime.thresholds",
        unit="ms",
        least=1,
        live=True,
    )


def weight(phase: str, default: int, what: str) -> int:
    key, doc = f"weighted-cost.{phase}", f"Cost of each nanosecond {what}."
    declared: int = integer(default, doc, -INT_MOST - 1, INT_MOST, key=key, hadoop=key)
    return declared


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedCost:
    """WeightedTimeCostProvider: what a call costs by the time it spends in each phase."""

    enqueue: int = weight("enqueue", 0, "until a call is in the queue")
    queue: int = weight("queue", 0, "in the queue")
    handler: int = weight("handler", 1, "in the handler outside the function")
    processing: int = weight("processing", 0, "in the function")
    lockfree: int = weight("lockfree", 1, "in the function without a lock")
    lockwait: int = weight("lockwait", 0, "waiting for a lock")
    lockshared: int = weight("lockshared", 10, "holding a shared lock")
    lockexclusive: int = weight("lockexclusive", 100, "holding an exclusive lock")
    response: int = weight("response", 1, "writing the answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryScheduler:
    """HistoryRpcScheduler: a caller's level follows from its number among the last calls."""

    history_length: int = integer(
        1000,
        "The calls that are remembered.",
        1,
        1 << 20,
        key="history-scheduler.history-length",
        hadoop="history-scheduler.history-length",
        live=True,
    )
    thresholds: tuple[int, ...] = setting(
        INTEGERS,
        Derived("`50,400,750` of 1000 for 4 levels", derived.history_thresholds),
        "Calls at which the next level begins, one less than there are levels.",
        key="history-scheduler.thresholds",
        hadoop="history-scheduler.thresholds",
        live=True,
        least=1,
        most=1 << 20,
    )
    service_users: tuple[str, ...] = setting(
        NAMES,
        (),
        "Callers on level 0, or before it within `scheduler.service-users.max-share`, always.",
        key="history-scheduler.service-users",
        hadoop="history-scheduler.service-users",
        live=True,
    )
