"""The server of a recorded case of dispatch throttling: queues in front of `DispatchBudget`s.

Queues are first in first out by topic, subscription and process; what is delivered is counted per
window.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from faircall.scheduling.dispatch_budget import Charge, DispatchBudget
from faircall.scheduling.dispatch_policies import BYTES, CALLS
from faircall.scheduling.dispatch_read import READ_BATCH, planned_units
from faircall.scheduling.dispatch_settings import counted_calls, has_backlog

from .pulsar_cases import method_of, policies_of, settings_of
from .recorded import Case

Key = tuple[str, str, int]
MS = 1_000_000


@dataclass(frozen=True)
class Unit:
    """A call or a batch; `filtered` ones are dropped before their handler."""

    msgs: int
    bytes: int
    filtered: bool


@dataclass
class Queue:
    """The waiting units of one topic, subscription and process."""

    units: deque[Unit] = field(default_factory=deque)
    backlog: bool = False


class Server:
    """A server under the configuration of a case; BadValue if that is refused."""

    def __init__(self, case: Case) -> None:
        self.config = deepcopy(dict(case.fields["config"]))
        self.window_ms, self.until_ms = case.fields["window_ms"], case.fields["until_ms"]
        self.settings = settings_of(self.config)
        own_budgets = self.config.get("scope") == "per_process"
        self.budgets = [
            DispatchBudget(policies_of(self.config), self.settings)
            for _ in range(self.config.get("processes", 1) if own_budgets else 1)
        ]
        self.queues: dict[Key, Queue] = {}
        self.delivered: dict[str, Counter[int]] = {}
        self.now_ns = 0

    def windows(self, name: str) -> list[int]:
        """What was counted under a name in each window of the case."""
        counted = self.delivered.get(name, Counter())
        return [counted[window] for window in range(-(-self.until_ms // self.window_ms))]

    def dispatch(self) -> None:
        """Delivers what may go now, of all queues."""
        moved = True
        while moved:
            moved = False
            for key, queue in self.queues.items():
                while self._turn(key, queue):
                    moved = True

    def _turn(self, key: Key, queue: Queue) -> bool:
        """Delivers or drops from the front; whether anything left the queue."""
        before = len(queue.units)
        if not before:
            return False
        if queue.units[0].filtered:
            self._drop(key, queue.units.popleft())
        elif self._is_free(queue):
            charge = self.budget(key).try_take_free(*names(key), self.now_ns)
            assert charge is not None
            self.deliver(key, queue.units.popleft(), charge)
        elif self.config.get("planner") == "bulk_read":
            self._read_in_bulk(key, queue)
        else:
            self._take_one(key, queue)
        self.look_at(queue)
        return len(queue.units) < before

    def _take_one(self, key: Key, queue: Queue) -> None:
        unit = queue.units[0]
        budget, calls = self.budget(key), self.calls(unit)
        charge = budget.try_take(*names(key), calls, unit.bytes, self.now_ns)
        if charge is not None:
            self.deliver(key, queue.units.popleft(), charge)

    def _read_in_bulk(self, key: Key, queue: Queue) -> None:
        read = [queue.units.popleft() for _ in range(min(self.plan(key), len(queue.units)))]
        for unit in read:
            self.deliver(key, unit, self.take_anyway(key, unit))

    def plan(self, key: Key) -> int:
        """How many units a bulk read of a queue takes now."""
        budget, precise = self.budget(key), self.settings.precise
        return planned_units(
            budget.room(*names(key), CALLS, self.now_ns),
            budget.room(*names(key), BYTES, self.now_ns),
            calls_per_unit=self.config.get("avg_messages_per_entry", 1) if precise else 1,
            bytes_per_unit=self.config.get("avg_entry_bytes"),
            read_batch=self.config.get("read_batch", READ_BATCH),
        )

    def _drop(self, key: Key, unit: Unit) -> None:
        if self.settings.for_filtered_entries and not self._is_free(self.queues[key]):
            self.budget(key).lose(self.take_anyway(key, unit), self.now_ns)

    def take_anyway(self, key: Key, unit: Unit) -> Charge:
        """Charges a unit whatever the gates say."""
        budget = self.budget(key)
        return budget.take(*names(key), self.calls(unit), unit.bytes, self.now_ns)

    def deliver(self, key: Key, unit: Unit, charge: Charge) -> None:
        """Ends a unit that was charged, and counts it."""
        self.budget(key).end(charge, 0, 0, self.now_ns)
        self.count(key, unit)

    def count(self, key: Key, unit: Unit) -> None:
        """Counts a unit as delivered now."""
        topic, sub, process = key
        window = self.now_ns // (self.window_ms * MS)
        for name in ("total", topic, f"{topic}|{sub}", f"proc:{process}"):
            self.delivered.setdefault(name, Counter())[window] += unit.msgs
        self.delivered.setdefault("entries", Counter())[window] += 1
        self.delivered.setdefault("bytes", Counter())[window] += unit.bytes

    def openings(self) -> Iterator[int]:
        """When the first unit of each queue may go."""
        for key, queue in self.queues.items():
            if queue.units:
                yield self.budget(key).opens_ns(*names(key), self.now_ns)

    def calls(self, unit: Unit) -> int:
        """What a unit counts as."""
        return counted_calls(unit.msgs, on_batch_message=self.settings.on_batch_message)

    def _is_free(self, queue: Queue) -> bool:
        return not self.settings.on_non_backlog_consumer and not queue.backlog

    def look_at(self, queue: Queue) -> None:
        """Notes whether a queue has a backlog."""
        waiting, threshold = len(queue.units), self.settings.backlog_threshold
        queue.backlog = has_backlog(queue.backlog, waiting, threshold)

    def budget(self, key: Key) -> DispatchBudget:
        """The budget that the process of a queue is under."""
        return self.budgets[key[2] % len(self.budgets)]


def names(key: Key) -> tuple[str, str]:
    """The method and the caller of a queue."""
    return method_of(key[0]), key[1]
