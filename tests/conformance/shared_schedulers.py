"""The columns and the janitor's sweep as subjects of the recorded cases of the schedulers.

complete    what the call cost is charged in the column of a reader, and its response time in that
            of a handler; here by the pure cost provider and in Hadoop's whole units, as columns
            take what they are given
decay       one period passes, and the janitor's sweep is due
update_avg  the janitor ends a window of response times, without a sweep
backoff     a reader asks its gate
priority    the janitor looks at who is new, and a reader takes the level that it published
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from faircall.scheduling.backoff import Reason
from faircall.scheduling.cost import CostProvider, DefaultCostProvider, Phase
from faircall.scheduling.decay_settings import DecaySettings
from faircall.scheduling.identity import IdentityProvider, UserIdentityProvider, identify
from faircall.scheduling.units import TimeUnit
from faircall.server.janitor.level_times import LevelTimes
from faircall.server.janitor.sweep import Sweep
from faircall.server.janitor.unswept import EVERY_NS
from faircall.server.reader.backoff import Gate
from faircall.server.reader.drain_rate import DrainRates
from faircall.server.reader.start import backoff_rules
from faircall.shm.layout import LEVEL, MAX_LEVELS
from faircall.shm.names import OTHERS

from . import oracle
from .pure_schedulers import Step, caller_of, conf_of, times_of
from .recorded import Case
from .shared_port import NotExpressed, SharedPort, keys_of, settings_of
from .shared_terms import digits

CAPACITY = 4096
_SIGNED = 1 << 63


class SweptCosts:
    """The identities of a port, who are charged and swept."""

    def __init__(self, port: SharedPort) -> None:
        self.port, self.shared = port, port.shared
        self.cost_provider: CostProvider = DefaultCostProvider()
        self.identity_provider: IdentityProvider = UserIdentityProvider()
        self.sweep = Sweep(port.standing())
        self.now_ns = 0
        self._called = self.shared.columns.call_totals()  # as of the last sweep

    # -- what processes do -------------------------------------------------------------------------

    def row(self, step: Step) -> int:
        """The row of the user of a step, a new one for a new user."""
        return self.shared.names.identity(self.name(step), self.now_ns)

    def name(self, step: Step) -> str:
        return identify(self.identity_provider, caller_of(step))

    def complete(self, step: Step) -> None:
        row, cost = self.row(step), self.cost_provider.cost(times_of(step))
        level = min(max(step.get("prio", 0), 0), MAX_LEVELS - 1)  # calls have no other
        for call in range(step.get("n", 1)):
            process = call % 2  # of the columns, any will do
            self.shared.columns.charge(process, row, cost)
            self.shared.columns.responded(0, level, self._response_ns(step))

    def _response_ns(self, step: Step) -> int:
        """Whole units of each phase, as Hadoop counts; the server has nanoseconds of the whole."""
        times, unit = times_of(step), self._unit()
        return (times.get(Phase.QUEUE, unit) + times.get(Phase.PROCESSING, unit)) * unit

    def _unit(self) -> TimeUnit:
        return TimeUnit[self.port.settings.rpc.metrics_timeunit]

    def update_avg(self, step: Step) -> None:
        settings = self.port.ipc.decay_scheduler
        factor = settings.decay_factor if step["decay"] else 0.0
        times = LevelTimes(self.shared)
        times.configure(dataclasses.replace(settings, decay_factor=factor), decides=True)
        times.fold()

    def decay(self, step: Step) -> None:
        self.now_ns = self.sweep.next_sweep_ns()
        assert self.sweep.tick(self.now_ns)
        self._called = self.shared.columns.call_totals()

    # -- what a case asks --------------------------------------------------------------------------

    def priority(self, step: Step) -> int:
        row = self.shared.names.identities.find(self.name(step))
        return self.level(row) if row >= 0 else 0

    def level(self, row: int) -> int:
        """The level that a reader finds after the janitor's next look."""
        self.now_ns += EVERY_NS
        assert not self.sweep.tick(self.now_ns)
        return self.shared.names.level(row)

    def backoff(self, step: Step) -> bool:
        return self.backs_off(step["prio"])

    def backs_off(self, level: int) -> bool:
        """Whether a reader refuses a call of that level because of response times."""
        gate = Gate(self.shared, backoff_rules(self.port.standing()), DrainRates(self.shared))
        gate.begin()
        refusal = gate.look(0, level, self.now_ns)
        return refusal is not None and refusal.reason is Reason.RESPONSE_TIME

    def dump_avg_response(self, step: Step) -> list[float]:
        place, levels = self.shared.segment.layout.level_words, len(step["expect"])
        words = self.shared.segment.records(LEVEL, place, MAX_LEVELS)
        means_ns = words["mean_ns"].view(np.float64)[:levels]
        return [digits(mean_ns / self._unit()) for mean_ns in means_ns.tolist()]

    def dump_users(self, step: Step) -> dict[str, int]:
        return self._decayed()

    def dump_raw(self, step: Step) -> dict[str, int]:
        """What the users of the step were ever charged."""
        rows, charged = self.shared.names.identities.rows, self.shared.columns.cost_totals()
        found = {}
        for name in step["expect"]:
            row = self.shared.names.identities.find(name)
            found[name] = signed(rows["raw"][row], charged[row], rows["seen"][row])
        return found

    def dump_cached_priority(self, step: Step) -> dict[str, int]:
        rows = self.shared.names.identities.rows
        return {name: int(rows["level"][row]) for name, row in self._rows() if rows["decayed"][row]}

    def dump_total_decayed(self, step: Step) -> int:
        return self._total(service=False)

    def dump_service_total_decayed(self, step: Step) -> int:
        return self._total(service=True)

    def dump_unique_users(self, step: Step) -> int:
        return len(self._decayed())

    def not_expressed(self, step: Step) -> None:
        raise NotExpressed(step["op"])

    set_static = admin_priority = metrics = not_expressed

    # -- the words ---------------------------------------------------------------------------------

    def _rows(self) -> Iterator[tuple[str, int]]:
        names = self.shared.names.identities
        return ((names.name(row), row) for row in names.used_rows() if row != OTHERS)

    def _decayed(self) -> dict[str, int]:
        """The decayed cost now of who owes something or has called since the last sweep."""
        rows, columns = self.shared.names.identities.rows, self.shared.columns
        charged, called = columns.cost_totals(), columns.call_totals()
        return {
            name: signed(rows["decayed"][row], charged[row], rows["seen"][row])
            for name, row in self._rows()
            if rows["decayed"][row] or called[row] != self._called[row]
        }

    def _total(self, service: bool) -> int:
        users = self.port.ipc.decay_scheduler.service_users
        return sum(cost for name, cost in self._decayed().items() if (name in users) == service)


class SharedDecay(SweptCosts):
    """The columns of a port with a DecayRpcScheduler, charged by the cost provider of the case."""

    def __init__(self, case: Case) -> None:
        pure = DecaySettings.from_conf(case.fields["levels"], conf_of(case))
        keys = keys_of(
            case,
            callqueue__impl="FairCallQueue",
            scheduler__priority__levels=str(case.fields["levels"]),
        )
        super().__init__(SharedPort(*settings_of(keys, CAPACITY)))
        self.identity_provider, self.cost_provider = pure.identity_provider, pure.cost_provider


class SharedHistory:
    """The levels that the janitor gives by number among the last calls."""

    def __init__(self, case: Case) -> None:
        fields, prefix = case.fields, f"{oracle.NAMESPACE}.history-scheduler."
        keys = {
            f"{oracle.NAMESPACE}.scheduler.impl": "HistoryRpcScheduler",
            "ipc.callqueue.impl": "FairCallQueue",
            f"{oracle.NAMESPACE}.scheduler.priority.levels": str(fields["levels"]),
            prefix + "history-length": str(fields["history_length"]),
            prefix + "thresholds": ",".join(map(str, fields["thresholds"])),
            prefix + "service-users": ",".join(fields.get("service_users", [])),
        }
        self.port = SharedPort(*settings_of(keys, CAPACITY))
        self.shared = self.port.shared
        self.sweep = Sweep(self.port.standing())
        self.sweep.tick(0)

    def call(self, step: Step) -> None:
        """One call, and the janitor looks."""
        self.shared.columns.charge(0, self.shared.names.identity(step["user"], 0), 1)
        self.sweep.tick(0)

    def priority(self, step: Step) -> int:
        row = self.shared.names.identities.find(step["user"])
        return 0 if row < 0 else self.shared.names.level(row)


def signed(folded: np.uint64, charged: np.uint64, seen: np.uint64) -> int:
    """A cost with what was charged since the sweep: words are sums modulo 2^64, of either sign."""
    total = (int(folded) + int(charged) - int(seen)) % (2 * _SIGNED)
    return total - 2 * _SIGNED if total >= _SIGNED else total
