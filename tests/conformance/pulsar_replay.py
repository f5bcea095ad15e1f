"""Runs a recorded case of dispatch throttling on `DispatchBudget`, and counts what is delivered.

Time jumps from one event to the next: an operation of the case, or the opening that the budget
itself names for the first unit of a queue. So an opening that is named too late delivers too late,
and one that is named too early fails the replay.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from faircall.scheduling.dispatch_budget import Charge, DispatchBudget, Use
from faircall.scheduling.dispatch_policies import BYTES, CALLS
from faircall.scheduling.dispatch_rate import NEVER_NS
from faircall.scheduling.dispatch_read import READ_BATCH, planned_units
from faircall.scheduling.dispatch_settings import counted_calls, has_backlog
from faircall.scheduling.errors import BadValue

from .pulsar_cases import method_of, policies_of, settings_of
from .recorded import Case, Mismatch

Step = Mapping[str, Any]
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


class Replay:
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
        self.openings_ms: list[int] = []
        self.charges: dict[str, Charge] = {}
        self.read: dict[str, int] = {}
        self.sent: dict[str, list[Unit]] = {}
        self.now_ns = 0

    def run(self, timeline: list[Step]) -> None:
        """Until the end of the case; operations of one instant in the order of the rules."""
        steps = deque((t, list(same)) for t, same in groupby(timeline, key=lambda step: step["t"]))
        while self.now_ns < self.until_ms * MS:
            if steps and steps[0][0] * MS == self.now_ns:
                self._instant(steps.popleft()[1])
            else:
                self._instant([])
            coming = [steps[0][0] * MS] if steps else []
            opening = min(self._openings(), default=NEVER_NS)
            assert opening > self.now_ns, "the gate is shut, and should have been open"
            self.now_ns = min([*coming, opening, self.until_ms * MS])

    def _instant(self, steps: list[Step]) -> None:
        order = ("publish_rate", "set", "", "probe")
        last = len(order) - 2
        for turn, op in enumerate(order):
            for step in steps:
                due = order.index(step["op"]) if step["op"] in order else last
                if due == turn:
                    getattr(self, f"_{step['op']}")(step)
            if not op:
                self._dispatch()

    # -- operations ------------------------------------------------------------------------------

    def _publish_rate(self, step: Step) -> None:
        for budget in self.budgets:
            calls, size = step.get("msg", 0.0), step.get("bytes", 0.0)
            budget.counters.averaged(method_of(step["topic"]), calls, size, self.now_ns)

    def _set(self, step: Step) -> None:
        *folders, last = step["path"]
        place = self.config
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = step["value"]
        if step["value"] is None:
            del place[last]
        self.settings = settings_of(self.config)
        for budget in self.budgets:
            budget.counters.apply(policies_of(self.config), self.now_ns)

    def _arrive(self, step: Step) -> None:
        queue = self._queue(step)
        queue.units.extend(_units(step))
        self._look_at(queue)

    def _force(self, step: Step) -> None:
        for unit in _units(step):
            self._deliver(_key(step), unit, self._take_anyway(_key(step), unit))

    def _probe(self, step: Step) -> None:
        opens_ns = self._budget(_key(step)).opens_ns(*_names(_key(step)), self.now_ns)
        self.openings_ms.append(max(opens_ns, self.now_ns) // MS)

    def _crash(self, step: Step) -> None:
        for key in [key for key in self.queues if key[2] == step["proc"]]:
            del self.queues[key]

    def _steps(self, step: Step) -> None:
        for one in step["do"]:
            getattr(self, f"_do_{one['do']}")(one["who"], one)

    # -- an explicit interleaving ----------------------------------------------------------------

    def _do_read_quota(self, who: str, step: Step) -> None:
        self.read[who] = self._plan(_key(step))

    def _do_load(self, who: str, step: Step) -> None:
        self._send(who, step, self.read.pop(who))

    def _do_load_entries(self, who: str, step: Step) -> None:
        granted = self.read.pop(who, step["n"])
        self._send(who, step, step["n"] if granted else 0)

    def _do_decrease(self, who: str, step: Step) -> None:
        for unit in self.sent.pop(who):
            self._take_anyway(_key(step), unit)

    def _do_reserve(self, who: str, step: Step) -> None:
        key = _key(step)
        budget, names = self._budget(key), _names(key)
        granted = min(step["n"], budget.room(*names, CALLS, self.now_ns))
        charge = budget.try_take(*names, granted, 0, self.now_ns)
        self.read[who] = 0 if charge is None else granted
        if charge is not None:
            self.charges[who] = charge

    def _do_settle(self, who: str, step: Step) -> None:
        sent = self.sent.pop(who, [])
        used = Use(sum(map(self._calls, sent)), sum(unit.bytes for unit in sent))
        if who in self.charges:
            self._budget(_key(step)).settle(self.charges.pop(who), used, self.now_ns)

    def _do_crash(self, who: str, step: Step) -> None:
        """Neither charges nor settles: what was reserved stays."""
        self.charges.pop(who, None)
        self.sent.pop(who, None)

    def _send(self, who: str, step: Step, most: int) -> None:
        queue = self._queue(step)
        for _ in range(min(most, len(queue.units))):
            unit = queue.units.popleft()
            self._count(_key(step), unit)
            self.sent.setdefault(who, []).append(unit)

    # -- dispatch --------------------------------------------------------------------------------

    def _dispatch(self) -> None:
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
            charge = self._budget(key).try_take_free(*_names(key), self.now_ns)
            assert charge is not None
            self._deliver(key, queue.units.popleft(), charge)
        elif self.config.get("planner") == "bulk_read":
            self._read_in_bulk(key, queue)
        else:
            self._take_one(key, queue)
        self._look_at(queue)
        return len(queue.units) < before

    def _take_one(self, key: Key, queue: Queue) -> None:
        unit = queue.units[0]
        budget, calls = self._budget(key), self._calls(unit)
        charge = budget.try_take(*_names(key), calls, unit.bytes, self.now_ns)
        if charge is not None:
            self._deliver(key, queue.units.popleft(), charge)

    def _read_in_bulk(self, key: Key, queue: Queue) -> None:
        read = [queue.units.popleft() for _ in range(min(self._plan(key), len(queue.units)))]
        for unit in read:
            self._deliver(key, unit, self._take_anyway(key, unit))

    def _plan(self, key: Key) -> int:
        budget, names = self._budget(key), _names(key)
        precise = self.settings.precise
        return planned_units(
            budget.room(*names, CALLS, self.now_ns),
            budget.room(*names, BYTES, self.now_ns),
            calls_per_unit=self.config.get("avg_messages_per_entry", 1) if precise else 1,
            bytes_per_unit=self.config.get("avg_entry_bytes"),
            read_batch=self.config.get("read_batch", READ_BATCH),
        )

    def _drop(self, key: Key, unit: Unit) -> None:
        if self.settings.for_filtered_entries and not self._is_free(self.queues[key]):
            self._budget(key).lose(self._take_anyway(key, unit), self.now_ns)

    def _take_anyway(self, key: Key, unit: Unit) -> Charge:
        budget = self._budget(key)
        return budget.take(*_names(key), self._calls(unit), unit.bytes, self.now_ns)

    def _deliver(self, key: Key, unit: Unit, charge: Charge) -> None:
        self._budget(key).end(charge, 0, 0, self.now_ns)
        self._count(key, unit)

    def _count(self, key: Key, unit: Unit) -> None:
        topic, sub, process = key
        window = self.now_ns // (self.window_ms * MS)
        for name in ("total", topic, f"{topic}|{sub}", f"proc:{process}"):
            self.delivered.setdefault(name, Counter())[window] += unit.msgs
        self.delivered.setdefault("entries", Counter())[window] += 1
        self.delivered.setdefault("bytes", Counter())[window] += unit.bytes

    # -- what the above look at ------------------------------------------------------------------

    def _openings(self) -> Iterator[int]:
        for key, queue in self.queues.items():
            if queue.units:
                yield self._budget(key).opens_ns(*_names(key), self.now_ns)

    def _calls(self, unit: Unit) -> int:
        return counted_calls(unit.msgs, on_batch_message=self.settings.on_batch_message)

    def _is_free(self, queue: Queue) -> bool:
        return not self.settings.on_non_backlog_consumer and not queue.backlog

    def _look_at(self, queue: Queue) -> None:
        waiting, threshold = len(queue.units), self.settings.backlog_threshold
        queue.backlog = has_backlog(queue.backlog, waiting, threshold)

    def _queue(self, step: Step) -> Queue:
        return self.queues.setdefault(_key(step), Queue())

    def _budget(self, key: Key) -> DispatchBudget:
        return self.budgets[key[2] % len(self.budgets)]

    # -- what the case expects -------------------------------------------------------------------

    def windows(self, name: str) -> list[int]:
        """What was counted under a name in each window of the case."""
        counted = self.delivered.get(name, Counter())
        return [counted[window] for window in range(-(-self.until_ms // self.window_ms))]


def mismatches(case: Case) -> list[Mismatch]:
    """Where the replay of a case differs from what was recorded."""
    expected = case.fields["expect"]
    replay: Replay | None = None
    try:
        replay = Replay(case)
        replay.run(case.fields["timeline"])
    except BadValue as error:
        return _compare("error", expected.get("error", "none"), _error_of(error))
    assert replay is not None
    found = _compare("error", expected.get("error"), None)
    for name in ("total", "entries", "bytes"):
        if name in expected:
            found += _compare(name, expected[name], replay.windows(name))
    for name, counts in expected.get("by", {}).items():
        found += _compare(name, counts, replay.windows(name))
    for name, most in expected.get("max_by", {}).items():
        highest = max(replay.windows(name))
        found += [Mismatch(0, name, f"<= {most}", highest)] if highest > most else []
    if "next_open_ms" in expected:
        found += _compare("next_open_ms", expected["next_open_ms"], replay.openings_ms)
    return found


def _compare(name: str, recorded: object, answered: object) -> list[Mismatch]:
    return [] if recorded == answered else [Mismatch(0, name, recorded, answered)]


def _error_of(error: BadValue) -> str:
    kinds: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("period_s", lambda text: "period_s" in text),
        ("mutually_exclusive", lambda text: "mutually exclusive" in text),
    )
    return next((name for name, says in kinds if says(str(error))), str(error))


def _units(step: Step) -> Iterator[Unit]:
    unit = Unit(step.get("msgs", 1), step.get("bytes", 0), step.get("filtered", False))
    return (unit for _ in range(step.get("n", 1)))


def _key(step: Step) -> Key:
    return step["topic"], step["sub"], step.get("proc", 0)


def _names(key: Key) -> tuple[str, str]:
    return method_of(key[0]), key[1]
