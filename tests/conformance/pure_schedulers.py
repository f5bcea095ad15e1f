"""The pure schedulers of `faircall.scheduling` as subjects of the recorded cases.

A subject has one method per operation: it takes the step and returns the answer in recorded form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faircall.scheduling import summary
from faircall.scheduling.conf import Conf
from faircall.scheduling.cost import PhaseTimes
from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.history import HistoryRpcScheduler
from faircall.scheduling.identity import Caller
from faircall.scheduling.scheduler import RpcScheduler
from faircall.scheduling.units import TimeUnit

from . import oracle
from .recorded import Case

Step = Mapping[str, Any]


def conf_of(case: Case) -> Conf:
    """The configuration of a case, by the rules of the running system."""
    namespace = case.fields.get("ns", oracle.NAMESPACE)
    values = case.values(namespace)
    return Conf(
        oracle.RUNNING_SYSTEM | {key: oracle.importable(text) for key, text in values.items()},
        namespace,
    )


def times_of(step: Step) -> PhaseTimes:
    """The phase times of a completed call."""
    return PhaseTimes.of(step.get("t", {}), TimeUnit[step.get("unit", "NANOSECONDS")])


def caller_of(step: Step) -> Caller:
    """The caller of a step."""
    return Caller(step["user"], step.get("context"))


def complete(scheduler: RpcScheduler, step: Step) -> None:
    """Reports the completion of `n` calls."""
    for _ in range(step.get("n", 1)):
        scheduler.complete(caller_of(step), step.get("prio", 0), times_of(step))


class PureDecay:
    """A DecayRpcScheduler."""

    def __init__(self, case: Case) -> None:
        self.namespace = case.fields.get("ns", oracle.NAMESPACE)
        self.scheduler = DecayRpcScheduler.from_conf(case.fields["levels"], conf_of(case))

    def complete(self, step: Step) -> None:
        complete(self.scheduler, step)

    def priority(self, step: Step) -> int:
        return self.scheduler.level_of(caller_of(step))

    def admin_priority(self, step: Step) -> int:
        return self.scheduler.assigned_level(caller_of(step))

    def set_static(self, step: Step) -> None:
        self.scheduler.assign_level(caller_of(step), step["prio"])

    def decay(self, step: Step) -> None:
        self.scheduler.sweep()

    def update_avg(self, step: Step) -> None:
        factor = self.scheduler.settings.factor if step["decay"] else 0.0
        self.scheduler.response_times.fold(factor)

    def backoff(self, step: Step) -> bool:
        return self.scheduler.backs_off(step["prio"])

    def dump(self, step: Step) -> dict[str, Any]:
        return summary.dump(self.scheduler)

    def metrics(self, step: Step) -> dict[str, Any]:
        metrics = summary.metrics(self.scheduler)
        return {
            "metrics2": {name: {"kind": kind, "value": n} for name, (kind, n) in metrics.items()},
            "record_context": "$NS",
            "record_name": "org.apache.hadoop.ipc.DecayRpcScheduler",
            "jmx": summary.bean(self.scheduler),
        }


class PureHistory:
    """A HistoryRpcScheduler."""

    def __init__(self, case: Case) -> None:
        prefix = f"{oracle.NAMESPACE}.history-scheduler."
        values = {
            prefix + "history-length": str(case.fields["history_length"]),
            prefix + "thresholds": ",".join(map(str, case.fields["thresholds"])),
            prefix + "service-users": ",".join(case.fields.get("service_users", [])),
        }
        levels = case.fields["levels"]
        self.scheduler = HistoryRpcScheduler.from_conf(levels, Conf(values, oracle.NAMESPACE))

    def call(self, step: Step) -> None:
        self.scheduler.arrive(caller_of(step))

    def priority(self, step: Step) -> int:
        return self.scheduler.level_of(caller_of(step))
