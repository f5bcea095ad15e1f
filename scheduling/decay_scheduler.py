"""Levels by decayed share of the load (Hadoop: `DecayRpcScheduler`, HADOOP-10281, HADOOP-17165).

The formulas stand in `decay.py`; costs are kept in a `CostLedger`. A level is looked up like this:

    service user                 0
    found by the last sweep      the level that the sweep computed
    otherwise                    computed now, from the costs so far and the thresholds
    static level                 in place of the computed one, at a sweep or now; never above the
                                 last level; below 0 it acts as 0 and is shown as it is

Differs in four ways. With `charge = "arrival"` what is known of a cost is charged when the call
arrives, refused calls included, and the rest when it completes. A call whose level does not exist
(any more) is recorded at the nearest one, where Hadoop fails after charging it. A missing identity
is an identity (`identity.py`). Sums saturate (`saturation.py`).
"""

from __future__ import annotations

from . import decay
from .conf import Conf
from .cost import NO_TIMES, Phase, PhaseTimes
from .decay_settings import DecaySettings
from .identity import Caller, identify
from .ledger import CostLedger
from .response_time import ResponseTimes
from .units import TimeUnit


class DecayRpcScheduler:
    """The scheduler of one queue. Sweeps when told to: `sweep()`, or `tick(now)` when due."""

    def __init__(self, settings: DecaySettings) -> None:
        self.settings = settings
        self.ledger = CostLedger(settings.service_users)
        self.response_times = ResponseTimes(settings.levels, settings.backoff_mode)
        self.decisions: dict[str, int] = {}
        self.missed_sweeps = 0
        self._static: dict[str, int] = {}
        self._swept_ns: int | None = None

    @classmethod
    def from_conf(cls, levels: int, conf: Conf) -> DecayRpcScheduler:
        """With the settings of a configuration; BadValue, NotParseable, NotBuilt."""
        return cls(DecaySettings.from_conf(levels, conf))

    def level_of(self, caller: Caller) -> int:
        """The level for a new call of `caller`."""
        return max(0, self.assigned_level(caller))

    def assigned_level(self, caller: Caller) -> int:
        """The level as assigned: a static one may be below 0."""
        identity = self._identity(caller)
        decision = self.decisions.get(identity)
        if decision is not None:
            return decision
        computed = decay.level_of(
            self.ledger.cost(identity), self.ledger.ordinary.decayed, self.settings.thresholds
        )
        return self._decide(identity, computed)

    def assign_level(self, caller: Caller, level: int) -> None:
        """Pins the level of `caller`; a decision of the last sweep stands until the next one."""
        self._static[self._identity(caller)] = min(level, self.settings.levels - 1)

    def backs_off(self, level: int) -> bool:
        """Whether response times say that a call of `level` is to be refused."""
        per_ms = TimeUnit.MILLISECONDS / self.settings.time_unit
        thresholds = [per_ms * threshold for threshold in self.settings.backoff_thresholds_ms]
        enabled = self.settings.backoff_by_response_time
        return enabled and self.response_times.backs_off(level, thresholds)

    def arrive(self, caller: Caller, expected_cost: int = 0) -> int:
        """Charges a count at once, or reserves the `expected_cost` of a call priced by its time."""
        if self.settings.charge == "completion":
            return 0
        provider = self.settings.cost_provider
        known = getattr(provider, "known_on_arrival", False)
        cost = provider.cost(NO_TIMES) if known else expected_cost
        self.ledger.charge(self._identity(caller), cost)
        return cost

    def complete(self, caller: Caller, level: int, times: PhaseTimes, charged: int = 0) -> None:
        """Charges what the call cost beyond `charged`, and records its response time."""
        cost = self.settings.cost_provider.cost(times)
        self.ledger.charge(self._identity(caller), cost - charged)
        unit = self.settings.time_unit
        response = times.get(Phase.QUEUE, unit) + times.get(Phase.PROCESSING, unit)
        self.response_times.record(level, response)

    def sweep(self) -> None:
        """Decays all costs, decides every known identity's level, ends the response window."""
        self.ledger.sweep(self.settings.factor)
        levels = self.ledger.levels(list(self.settings.thresholds))
        self.decisions = {name: self._decide(name, level) for name, level in levels.items()}
        self.response_times.fold(self.settings.factor)

    def tick(self, now_ns: int) -> bool:
        """Sweeps if a period has passed since the last sweep; missed ones are only counted."""
        if self._swept_ns is None:
            self._swept_ns = now_ns
        due = decay.sweeps_due(self._swept_ns, now_ns, self.settings.period_ms)
        if due:
            self.missed_sweeps += due - 1
            self._swept_ns += due * self.settings.period_ms * TimeUnit.MILLISECONDS
            self.sweep()
        return due > 0

    def _decide(self, identity: str, computed: int) -> int:
        if identity in self.settings.service_users:
            return 0
        return self._static.get(identity, computed)

    def _identity(self, caller: Caller) -> str:
        return identify(self.settings.identity_provider, caller)
