"""Runs a recorded case of dispatch throttling, and compares what is delivered.

Time jumps from one event to the next: an operation of the case, or the opening that the budget
itself names for the first unit of a queue. So an opening that is named too late delivers too late,
and one that is named too early fails the replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

from faircall.scheduling.dispatch_budget import Charge, Use
from faircall.scheduling.dispatch_policies import CALLS
from faircall.scheduling.dispatch_rate import NEVER_NS
from faircall.scheduling.errors import BadValue

from .pulsar_cases import method_of, policies_of, settings_of
from .pulsar_server import MS, Key, Queue, Server, Unit, names
from .recorded import Case, Mismatch

Step = Mapping[str, Any]


class Replay(Server):
    """Moves the server of a case through its timeline."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.openings_ms: list[int] = []
        self.charges: dict[str, Charge] = {}
        self.read: dict[str, int] = {}
        self.sent: dict[str, list[Unit]] = {}

    def close(self) -> None:
        """Nothing is to be given back."""

    def run(self, timeline: list[Step]) -> None:
        """Until the end of the case; operations of one instant in the order of the rules."""
        steps = deque((t, list(same)) for t, same in groupby(timeline, key=lambda step: step["t"]))
        while self.now_ns < self.until_ms * MS:
            if steps and steps[0][0] * MS == self.now_ns:
                self._instant(steps.popleft()[1])
            else:
                self._instant([])
            coming = [steps[0][0] * MS] if steps else []
            opening = min(self.openings(), default=NEVER_NS)
            assert opening > self.now_ns, "the gate is shut, and should have been open"
            self.now_ns = min([*coming, opening, self.until_ms * MS])

    def _instant(self, steps: list[Step]) -> None:
        turns = {"publish_rate": 0, "set": 1, "probe": 3}
        in_turn = sorted(steps, key=lambda step: turns.get(step["op"], 2))
        asked = [step for step in in_turn if step["op"] == "probe"]
        for step in in_turn[: len(in_turn) - len(asked)]:
            getattr(self, f"_{step['op']}")(step)
        self.dispatch()
        for step in asked:
            self._probe(step)

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
        queue.units.extend(units_of(step))
        self.look_at(queue)

    def _force(self, step: Step) -> None:
        for unit in units_of(step):
            self.deliver(key_of_step(step), unit, self.take_anyway(key_of_step(step), unit))

    def _probe(self, step: Step) -> None:
        opens_ns = self.budget(key_of_step(step)).opens_ns(*names(key_of_step(step)), self.now_ns)
        self.openings_ms.append(max(opens_ns, self.now_ns) // MS)

    def _crash(self, step: Step) -> None:
        for key in [key for key in self.queues if key[2] == step["proc"]]:
            del self.queues[key]

    def _steps(self, step: Step) -> None:
        for one in step["do"]:
            getattr(self, f"_do_{one['do']}")(one["who"], one)

    # -- an explicit interleaving ----------------------------------------------------------------

    def _do_read_quota(self, who: str, step: Step) -> None:
        self.read[who] = self.plan(key_of_step(step))

    def _do_load(self, who: str, step: Step) -> None:
        self._send(who, step, self.read.pop(who))

    def _do_load_entries(self, who: str, step: Step) -> None:
        granted = self.read.pop(who, step["n"])
        self._send(who, step, step["n"] if granted else 0)

    def _do_decrease(self, who: str, step: Step) -> None:
        for unit in self.sent.pop(who):
            self.take_anyway(key_of_step(step), unit)

    def _do_reserve(self, who: str, step: Step) -> None:
        key = key_of_step(step)
        budget = self.budget(key)
        granted = min(step["n"], budget.room(*names(key), CALLS, self.now_ns))
        charge = budget.try_take(*names(key), granted, 0, self.now_ns)
        self.read[who] = 0 if charge is None else granted
        if charge is not None:
            self.charges[who] = charge

    def _do_settle(self, who: str, step: Step) -> None:
        sent = self.sent.pop(who, [])
        used = Use(sum(map(self.calls, sent)), sum(unit.bytes for unit in sent))
        if who in self.charges:
            self.budget(key_of_step(step)).settle(self.charges.pop(who), used, self.now_ns)

    def _do_crash(self, who: str, step: Step) -> None:
        """Neither charges nor settles: what was reserved stays."""
        self.charges.pop(who, None)
        self.sent.pop(who, None)

    def _send(self, who: str, step: Step, most: int) -> None:
        queue = self._queue(step)
        for _ in range(min(most, len(queue.units))):
            unit = queue.units.popleft()
            self.count(key_of_step(step), unit)
            self.sent.setdefault(who, []).append(unit)

    def _queue(self, step: Step) -> Queue:
        return self.queues.setdefault(key_of_step(step), Queue())


def mismatches(case: Case, subject: type[Replay] | None = None) -> list[Mismatch]:
    """Where the replay of a case differs from what was recorded."""
    expected = case.fields["expect"]
    replay: Replay | None = None
    try:
        replay = (subject or Replay)(case)
        replay.run(case.fields["timeline"])
    except BadValue as error:
        return _compare("error", expected.get("error", "none"), _error_of(error))
    finally:
        if replay is not None:
            replay.close()
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


def units_of(step: Step) -> Iterator[Unit]:
    """The units that a step is about."""
    unit = Unit(step.get("msgs", 1), step.get("bytes", 0), step.get("filtered", False))
    return (unit for _ in range(step.get("n", 1)))


def key_of_step(step: Step) -> Key:
    """The queue that a step is about."""
    return step["topic"], step["sub"], step.get("proc", 0)
