"""What a call costs: cost providers (Hadoop: `CostProvider` and `ProcessingDetails`, HDFS-14403).

`DefaultCostProvider` counts calls. `WeightedTimeCostProvider` charges the time spent per phase:

    cost = sum over the nine phases of  weight[phase] * max(0, time[phase])      (modulo 2^64)

The default weights charge time under an exclusive lock 100-fold, under a shared lock 10-fold, the
handler's other work and the response once, and waiting not at all. Times count as they are stored,
whatever their unit; sums wrap at 64 bits as in Java.

Differs: a cost known on arrival (a count) can be charged on arrival, see `decay_scheduler.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from .components import provider_class
from .conf import Conf
from .saturation import Int64s, wrap64
from .units import TimeUnit


class Phase(IntEnum):
    """The phases of a call, in the order of the arrays that hold their times."""

    ENQUEUE = 0
    QUEUE = 1
    HANDLER = 2
    PROCESSING = 3
    LOCKFREE = 4
    LOCKWAIT = 5
    LOCKSHARED = 6
    LOCKEXCLUSIVE = 7
    RESPONSE = 8


DEFAULT_WEIGHTS: tuple[int, ...] = (0, 0, 1, 0, 1, 0, 10, 100, 1)


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """The time that a call spent in each phase, shape (9,), in `unit`."""

    values: tuple[int, ...]
    unit: TimeUnit = TimeUnit.NANOSECONDS

    @classmethod
    def of(cls, times: Mapping[str, int], unit: TimeUnit = TimeUnit.NANOSECONDS) -> PhaseTimes:
        """From phase names in lower case; absent and negative times are 0."""
        return cls(tuple(max(0, times.get(phase.name.lower(), 0)) for phase in Phase), unit)

    def get(self, phase: Phase, unit: TimeUnit) -> int:
        """The time of a phase in another unit, truncated."""
        return unit.convert(self.values[phase], self.unit)


NO_TIMES = PhaseTimes((0,) * len(Phase))


class CostProvider(Protocol):
    """Prices a call."""

    @property
    def known_on_arrival(self) -> bool:
        """Whether the cost is the same whatever the times."""

    def cost(self, times: PhaseTimes) -> int:
        """The cost of a call that spent `times`; any signed 64-bit integer."""


class DefaultCostProvider:
    """Every call costs 1."""

    known_on_arrival = True

    def cost(self, times: PhaseTimes) -> int:
        return 1


class WeightedTimeCostProvider:
    """Time, weighted per phase; `weights` has shape (9,) in the order of `Phase`."""

    known_on_arrival = False

    def __init__(self, weights: Sequence[int] = DEFAULT_WEIGHTS) -> None:
        self.weights = tuple(weights)

    @classmethod
    def from_conf(cls, conf: Conf) -> WeightedTimeCostProvider:
        """Weights of `weighted-cost.<phase>`, 32-bit integers; NotParseable."""
        return cls(
            [
                conf.integer(f"weighted-cost.{phase.name.lower()}", DEFAULT_WEIGHTS[phase])
                for phase in Phase
            ]
        )

    def cost(self, times: PhaseTimes) -> int:
        return wrap64(sum(map(int.__mul__, self.weights, times.values)))

    def phase_cost(self, phase: Phase, time: int) -> int:
        """What one phase adds to the cost: for phases that are known apart from the others."""
        return wrap64(self.weights[phase] * max(0, time))


COST_PROVIDERS: Mapping[str, type] = {
    provider.__name__: provider for provider in (DefaultCostProvider, WeightedTimeCostProvider)
}


def cost_provider(written: list[str], conf: Conf) -> CostProvider:
    """The first of the classes `written`, made from `conf` if it has `from_conf`; NotBuilt."""
    found = provider_class(written, COST_PROVIDERS, "cost", DefaultCostProvider)
    from_conf = getattr(found, "from_conf", None)
    provider: CostProvider = found() if from_conf is None else from_conf(conf)
    return provider


@dataclass(frozen=True, slots=True)
class CostRules:
    """What a port's settings say about costs; `charge` is "arrival" or "completion".

    `weights` has shape (9,), in the order of `Phase`; `namespace` is that of the port's keys.
    """

    provider: str = DefaultCostProvider.__name__
    weights: tuple[int, ...] = DEFAULT_WEIGHTS
    charge: str = "arrival"
    namespace: str = "ipc"

    @property
    def counts_on_arrival(self) -> bool:
        """Whether every call costs 1 when it arrives, and nothing more is to be done about it."""
        return self.counts and self.charge == "arrival"

    @property
    def counts(self) -> bool:
        """Whether every call costs 1, whenever it is charged."""
        return self.provider == DefaultCostProvider.__name__

    @property
    def is_ours(self) -> bool:
        """Whether the provider is none of the user's own, which runs in handlers only."""
        return self.provider in COST_PROVIDERS

    def build(self) -> CostProvider:
        """The provider; NotBuilt, or whatever a user's own class raises."""
        weights = zip(Phase, self.weights, strict=True)
        keys = {f"{self.namespace}.weighted-cost.{p.name.lower()}": str(w) for p, w in weights}
        return cost_provider([self.provider], Conf(keys, self.namespace))


def weighted_costs(times: Int64s, weights: Int64s) -> Int64s:
    """The costs of many calls at once: (n, 9) times and (9,) weights give shape (n,)."""
    return np.maximum(times, 0) @ weights
