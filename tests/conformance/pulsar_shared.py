"""The call table in shared memory as subject of the cases of dispatch throttling.

Calls go a reader's and a handler's way: staged with their limiters, enqueued, claimed, settled,
answered, collected. Time jumps to the opening that the table itself names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from faircall.scheduling.dispatch_lines import line_of
from faircall.server.limits import Switches
from faircall.server.rates_in_force import put_in_force
from faircall.server.reader.throttle import Throttle
from faircall.shm import states
from faircall.shm.answers import GIVEN_UP, WITHDRAWN
from faircall.shm.layout import SLOT, Geometry, word_of
from faircall.shm.policy import QueuePolicy
from faircall.shm.rings import SLOT_WORDS
from faircall.shm.shared import Shared
from faircall.shm.terms import Kind, kind_of, number_of

from .pulsar_cases import method_of, rate_of
from .pulsar_replay import Replay, Step, key_of_step, units_of
from .pulsar_server import Key, Unit
from .recorded import Case

GEOMETRY = Geometry(
    readers=4,  # the first has all calls; the others name limiters
    handlers=1,
    slots=4096,
    levels=1,
    turns=1024,
    identities=64,
    methods=32,
    limiters=128,
    small_pages=1,
    large_pages=1,
)
POLICY = QueuePolicy(weights=(1,), capacities=(4096,), max_principal=4096)
NEVER_NS = 1 << 63
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}


@dataclass(frozen=True)
class NotShared:
    """Cases that the table cannot be asked, and why not."""

    pattern: str
    why: str


_BULK = "a claim knows the size of what it takes, and charges it before: there are no bulk reads"
_ITEMS = "the items of a batch are calls of their own here, and are let go one by one"
_RACE = "a claim looks and charges under one lock: there is nothing to be interleaved"


class SharedReplay(Replay):
    """Moves one server's shared memory through the timeline of a case."""

    geometry = GEOMETRY

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.shared = Shared(self.geometry, POLICY)
        self.table, self.q = self.shared.table, self.shared.segment.q
        readers = range(self.geometry.readers)
        self.throttles = [Throttle(self.shared, number) for number in readers]
        self.free = list(range(GEOMETRY.slots))
        self.averages: dict[int, tuple[float, float, int]] = {}
        self.counted: dict[int, tuple[Key, Unit]] = {}  # by slot: what its claim delivers
        self.process: dict[int, int] = {}
        self._put_in_force()

    def close(self) -> None:
        self.shared.doorbells.close()
        os.close(self.shared.segment.fd)

    # -- operations ------------------------------------------------------------------------------

    def _publish_rate(self, step: Step) -> None:
        row = self._method(method_of(step["topic"]))
        average = step.get("msg", 0.0), step.get("bytes", 0.0), self.now_ns
        self.averages[row] = average
        self._average(row)

    def _set(self, step: Step) -> None:
        super()._set(step)
        self._put_in_force()

    def _arrive(self, step: Step) -> None:
        key = key_of_step(step)
        dropped = list[int]()
        for unit in units_of(step):
            slots = [self._stage(key, unit, index == 0) for index in range(self._items(unit))]
            self.counted[slots[0]] = key, unit
            self.process |= dict.fromkeys(slots, key[2])
            verdicts = [0] * len(slots)
            calls = [(slot, 0) for slot in slots]
            self.table.enqueue(calls, verdicts, limited=self._limited(slots))
            assert set(verdicts) == {0}
            dropped += slots if unit.filtered else []
        self._withdraw(dropped, self.now_ns if self.throttles[0].charges_dropped else None)

    def _withdraw(self, slots: Sequence[int], charged_ns: int | None = None) -> None:
        """Nobody waits for these any more; none has begun."""
        outcomes = [GIVEN_UP] * len(slots)
        self.table.withdraw(0, slots, outcomes, charged_ns=charged_ns)
        assert set(outcomes) <= {WITHDRAWN}
        for slot in slots:
            self._release(slot)

    def _force(self, step: Step) -> None:
        key = key_of_step(step)
        for unit in units_of(step):
            slot = self._stage(key, unit, True)
            with self.table.queue_lock:
                for _ in range(self.calls(unit)):
                    self.table.budgets.charge(self._own(slot), self.now_ns)
                    self.q[self._own(slot) + _S["request"]] = 0
            self._unstage(slot)
            self.count(key, unit)

    def _probe(self, step: Step) -> None:
        slot = self._stage(key_of_step(step), Unit(1, 0, False), True)
        opens_ns = self.table.blockers.opens_ns(self._own(slot))
        self._unstage(slot)
        self.openings_ms.append(max(opens_ns, self.now_ns) // 1_000_000)

    def _crash(self, step: Step) -> None:
        slots = [slot for slot, process in self.process.items() if process == step["proc"]]
        self._withdraw(slots)

    # -- the server ------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Claims, settles and answers what may go now."""
        while self.serve():
            answered = [0] * GEOMETRY.slots
            for slot in answered[: self.table.collect(0, answered)]:
                if slot in self.counted:
                    self.count(*self.counted[slot])
                self.table.release(slot)
                self._release(slot)
        assert self.table.recovery.audit() == []

    def serve(self) -> int:
        """What the handlers do at this moment; how many calls they answered."""
        return serve_once(self.shared, 0, self.now_ns)

    def openings(self) -> Iterator[int]:
        """When the table wants to be asked again."""
        if opens_ns := self.q[self.table.held.next_open_word]:
            yield opens_ns

    def _put_in_force(self) -> None:
        switches = Switches(
            batches=self.settings.on_batch_message,
            per_process=self.config.get("scope") == "per_process",
            backlog_only=not self.settings.on_non_backlog_consumer,
            charge_dropped=self.settings.for_filtered_entries,
        )
        put_in_force(self.shared, switches, lines_of(self.config), self.now_ns)

    def _stage(self, key: Key, unit: Unit, is_head: bool) -> int:
        slot, row = self.free.pop(0), self._method(method_of(key[0]))
        q, own = self.q, self._own(slot)
        q[own + _S["principal"]] = self.shared.names.identity(key[1], self.now_ns)
        q[own + _S["call"]] = states.call_word(row)
        q[own + _S["deadline_ns"]] = NEVER_NS
        q[own + _S["request"]] = (unit.bytes if is_head else 0) << 32
        throttle = self.throttles[key[2]]
        batch = self._batch(unit, is_head)
        throttle.name(slot, row, key[1], NEVER_NS, batch, self.now_ns)
        self._average(row)
        return slot

    def _limited(self, slots: Sequence[int]) -> set[int]:
        """Those of `slots` that a reader wants to be looked at when it offers them."""
        found = set[int]().union(*(throttle.limited for throttle in self.throttles))
        for throttle in self.throttles:
            throttle.offered()
        return found & {*slots}

    def _batch(self, unit: Unit, is_head: bool) -> object:
        if is_head:
            self._of = object()
        return self._of if self._items(unit) > 1 else None

    def _items(self, unit: Unit) -> int:
        return unit.msgs if self.settings.on_batch_message else 1

    def _average(self, row: int) -> None:
        """Rows of that method are told its average arrivals, new ones too."""
        if row not in self.averages:
            return
        calls, size, since_ns = self.averages[row]
        limiters = self.table.limiters
        with self.table.queue_lock:
            for number in limiters.used_rows():
                key = int(limiters.rows[number, 0])
                if kind_of(key) in (Kind.METHOD, Kind.PAIR) and number_of(key) == row:
                    limiters.averaged(number, (calls, size), since_ns)
                    self.table.held.look(limiters.at(number))

    def _method(self, name: str) -> int:
        row = self.shared.names.methods.find(name)
        return row if row >= 0 else self.shared.names.method(name, 0, 0)

    def _unstage(self, slot: int) -> None:
        self.q[self._own(slot) + _S["budget"]] = 0
        self.throttles[0].clear(slot)
        self.free.append(slot)

    def _release(self, slot: int) -> None:
        self.counted.pop(slot, None)
        self.process.pop(slot, None)
        self._unstage(slot)

    def _own(self, slot: int) -> int:
        return self.table.slot0 + slot * SLOT_WORDS


def serve_once(shared: Shared, handler: int, now_ns: int) -> int:
    """A handler's way: it claims what may go, settles and publishes it; how many calls."""
    table, q = shared.table, shared.segment.q
    slots, tokens = [0] * 8, [0] * 8
    count = table.claim(handler, now_ns, slots, tokens)
    table.settle(slots[:count], [(0, 0, True)] * count, now_ns)
    for slot in slots[:count]:
        own = table.slot0 + slot * SLOT_WORDS
        q[own + _S["answer"]] = states.answer_word(1, 0, q[own] >> 32)
    table.publish(0, zip(slots[:count], tokens, strict=False))
    return count


def lines_of(config: Mapping[str, Any]) -> list[str]:
    """The configuration of a case as lines of rates."""
    found = [("server", config.get("broker")), ("each method", config.get("per_topic"))]
    found.append(("callers of each method", config.get("per_subscription")))
    for name, policy in config.get("namespaces", {}).items():
        found.append((f"methods of {name}", policy.get("topic")))
        found.append((f"callers of service {name}", policy.get("subscription")))
    for topic, policy in config.get("topics", {}).items():
        method = method_of(topic)
        found.append((f"method {method}", policy.get("topic")))
        found.append((f"callers of {method}", policy.get("subscription")))
        for caller, rate in policy.get("subscriptions", {}).items():
            found.append((f"caller {caller} of {method}", rate))
    found += [(f"service {name}", rate) for name, rate in config.get("groups", {}).items()]
    exempt = [f"exempt {method_of(topic)}" for topic in config.get("exempt", [])]
    return [line_of(about, rate_of(rate)) for about, rate in found if rate is not None] + exempt


NOT_SHARED = (
    *(NotShared(name, _ITEMS) for name in ("BA-01", "BA-06", "BA-08")),
    *(NotShared(name, _BULK) for name in ("BA-02", "RC-03")),
    *(NotShared(name, _RACE) for name in ("RC-04", "RC-05")),
)


def why_not(name: str) -> str | None:
    """Why the table cannot be asked a case; None if it can."""
    return next((one.why for one in NOT_SHARED if fnmatchcase(name, one.pattern)), None)
