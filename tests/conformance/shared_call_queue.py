"""The shared table with the sweep that gives levels, as subject of the call queue's cases.

A call goes a reader's way: the level that was published for its user, the gate, then the table. A
swap is a change of policy in place.
"""

from __future__ import annotations

from typing import Any

from faircall.server.janitor.sweep import Sweep
from faircall.server.port import policy_of
from faircall.server.settings.declaration import ConfigError

from .pure_schedulers import Step
from .recorded import Case
from .shared_port import OVERFLOW, REFUSED, SharedPort, components, keys_of, settings_of
from .shared_queues import CallsOfTable
from .shared_schedulers import SweptCosts


class SharedCallQueue(CallsOfTable):
    """The table with the sweep that gives levels, and changes of policy."""

    def __init__(self, case: Case) -> None:
        self.case, self.backoff = case, case.fields.get("backoff", False)
        super().__init__(SharedPort(*self._settings(case.fields, case)))
        self.costs = SweptCosts(self.port)

    def enqueue(self, step: Step) -> dict[str, Any]:
        """A reader's way: the published level, the gate, then the table; `offer` has no gate."""
        row = self.costs.row(step)
        level = self.costs.level(row)
        if self.backoff and step.get("via") != "offer" and self.costs.backs_off(level):
            return {"priority": level, **OVERFLOW}
        if step.get("via") == "offer":
            result: object = self.offer({"id": step["id"], "prio": level})
        elif self.stage(step["id"], level, row):
            result = True if step.get("via") == "add" else "ok"
        elif self.backoff or step.get("via") == "add":
            return {"priority": level, **OVERFLOW}
        else:
            result = "blocked"
        return {"priority": level, "result": result}

    def complete(self, step: Step) -> None:
        self.costs.complete(step)

    def decay(self, step: Step) -> None:
        self.costs.decay(step)

    def set_backoff(self, step: Step) -> None:
        self.backoff = step["value"]

    def swap(self, step: Step) -> dict[str, Any]:
        """A change of policy in place: calls that wait stay, so nothing has to be waited for.

        Where a consumer polls meanwhile, it takes what waits.
        """
        swapped: dict[str, Any] = {"result": "ok"}
        drained: list[str | None] = []
        try:
            settings, ipc = self._settings(step, self.case)
            self.table.set_policy(policy_of(settings, ipc))
            self.port.settings, self.port.ipc = settings, ipc
            self.costs.sweep = Sweep(self.port.standing())
            drained = [self.claim() for _ in self.names.copy() if step.get("drain", True)]
        except (ConfigError, ValueError):
            swapped = dict(REFUSED)
        callqueue, scheduler = self.port.ipc.callqueue, self.port.ipc.scheduler
        return swapped | {
            "drained_from_old": drained,
            "queue": callqueue.impl,
            "scheduler": scheduler.impl,
            "capacities": self.capacities(step),
            "failover": callqueue.overflow_trigger_failover,
        }

    def __getattr__(self, name: str) -> Any:
        """`dump_<field>`, as of the sweep."""
        if name.startswith("dump_"):
            return getattr(self.costs, name)
        raise AttributeError(name)

    def _settings(self, fields: Any, case: Case) -> Any:
        keys = keys_of(Case(case.component, case.name, fields)) | components(fields)
        return settings_of(keys, fields["capacity"])
