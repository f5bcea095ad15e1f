"""The shared call table as subject of the recorded cases of the queues and the multiplexer.

In-turn service is off, as by Hadoop's rules, and every call's level is given.

    put, add    one `enqueue`; a full table is BLOCKED for one and a refusal for the other, as it is
                for a reader with back-off off and on
    offer       `enqueue`, if the call's own level has room: the server has no use for it
    poll, take  one `claim` by the only handler; the call is answered at once and its slot is FREE
    peek        the first call of the first level, left where it is: by the index
    drain       `withdraw`, from the first level down: as for a connection that closes
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from faircall.shm import states
from faircall.shm.answers import WITHDRAWN
from faircall.shm.layout import CLASSES, SLOT, word_of
from faircall.shm.offers import ACCEPTED
from faircall.shm.rings import SLOT_WORDS

from . import oracle
from .pure_schedulers import Step
from .recorded import Case
from .shared_port import (
    OVERFLOW,
    REFUSED,
    NotExpressed,
    SharedPort,
    keys_of,
    settings_of,
)

_CALL, _PRINCIPAL = word_of(SLOT, "call"), word_of(SLOT, "principal")


class CallsOfTable:
    """The waiting calls of one shared table by the names that a case gives them."""

    def __init__(self, port: SharedPort) -> None:
        self.port, self.table = port, port.shared.table
        self.names: dict[int, str] = {}
        self._free = list(range(port.shared.geometry.slots))

    # -- the operations of the table ---------------------------------------------------------------

    def stage(self, id: str, level: int, row: int = 0) -> bool:
        """One reader's call; whether the table took it."""
        if level < 0:
            raise NotExpressed("a level below 0: levels are unsigned words")
        slot, verdicts = self._free.pop(), [ACCEPTED]
        own = self.table.slot0 + slot * SLOT_WORDS
        self.table.q[own + _PRINCIPAL] = self.port.shared.names.reference(row)
        self.table.q[own + _CALL] = states.call_word(0, cls=0)
        self.table.enqueue([(slot, level)], verdicts)
        if verdicts[0] == ACCEPTED:
            self.names[slot] = id
        else:
            self._free.append(slot)
        return verdicts[0] == ACCEPTED

    def claim(self) -> str | None:
        """The next call, which is answered, collected and gone; None if nothing waits."""
        out, tokens = [0], [0]
        if not self.table.claim(0, 0, out, tokens):
            return None
        slot = out[0]
        self.table.publish(0, [(slot, tokens[0])])
        assert self.table.collect(0, out) == 1
        self.table.release(slot)
        self._free.append(slot)
        return self.names.pop(slot)

    def withdraw_first(self) -> str | None:
        """The first call of the first level is given up; None if nothing waits."""
        slot = self.first()
        if slot is None:
            return None
        outcomes = [WITHDRAWN]
        self.table.withdraw(0, [slot], outcomes)
        assert outcomes == [WITHDRAWN]
        self._free.append(slot)
        return self.names.pop(slot)

    def first(self) -> int | None:
        """The slot of the first call of the first level that has one."""
        with self.table.queue_lock:
            levels = range(self.table.load_policy().levels)
            slots = (self.table.rings.first_of_level(level) for level in levels)
            return next((slot for slot in slots if slot >= 0), None)

    def level_of(self, slot: int) -> int:
        """The level at which a call waits."""
        word = self.table.q[self.table.slot0 + slot * SLOT_WORDS]
        return int(word >> states.LEVEL_SHIFT & states.LEVEL_MASK)

    # -- what a case asks --------------------------------------------------------------------------

    def put(self, step: Step) -> object:
        return "ok" if self.stage(step["id"], step["prio"]) else "blocked"

    def add(self, step: Step) -> object:
        return self.stage(step["id"], step["prio"]) or OVERFLOW

    def offer(self, step: Step) -> object:
        level = min(step["prio"], self.port.policy.levels - 1)
        has_room = level < 0 or self.sizes(step)[level] < self.port.policy.capacities[level]
        return has_room and self.stage(step["id"], step["prio"])

    offer_timed = offer

    def poll(self, step: Step) -> object:
        if "n" in step:
            return [self.claim() for _ in range(step["n"])]
        return self.claim() or "none"

    poll_timed = poll

    def take(self, step: Step) -> str:
        return self.claim() or "blocked"

    def remove(self, step: Step) -> object:
        return self.claim() or REFUSED

    def peek(self, step: Step) -> str:
        slot = self.first()
        return "none" if slot is None else self.names[slot]

    def element(self, step: Step) -> object:
        slot = self.first()
        return REFUSED if slot is None else self.names[slot]

    def drain(self, step: Step) -> dict[str, Any]:
        count = min(step.get("max", len(self.names)), len(self.names))
        ids = [self.withdraw_first() for _ in range(count)]
        return {"count": len(ids), "ids": ids}

    def iterator(self, step: Step) -> object:
        raise NotExpressed("calls are taken, not looked through")

    def size(self, step: Step) -> int:
        return int(self.table.q[self.table.waiting_word])

    def is_empty(self, step: Step) -> bool:
        return not self.size(step)

    def remaining(self, step: Step) -> int:
        return sum(self.port.policy.capacities) - self.size(step)

    def sizes(self, step: Step) -> list[int]:
        q, at = self.table.q, self.table.rings.waiting_word
        pairs = (at + level * CLASSES for level in range(self.port.policy.levels))
        return [q[pair] + q[pair + 1] for pair in pairs]

    put_sizes = sizes

    def overflowed(self, step: Step) -> list[int]:
        at = self.table.overflowed_word
        return list(self.table.q[at : at + self.port.policy.levels])

    overflowed_after_blocked = overflowed

    def capacities(self, step: Step) -> list[int]:
        return list(self.port.policy.capacities)

    def jmx(self) -> dict[str, Any]:
        """The bean's attributes; the revision counts the queues of one process and port."""
        step: Step = {}
        sizes, overflowed = self.sizes(step), self.overflowed(step)
        return {"jmx": {"OverflowedCalls": overflowed, "QueueSizes": sizes, "Revision": 1}}


class SharedFairCallQueue(CallsOfTable):
    """The table under the policy of a port with a FairCallQueue."""

    def __init__(self, case: Case) -> None:
        fields = case.fields
        keys = keys_of(
            case,
            callqueue__impl="FairCallQueue",
            scheduler__priority__levels=str(fields["levels"]),
            callqueue__overflow__trigger__failover=str(fields.get("failover", False)).lower(),
        )
        if weights := fields.get("capacity_weights"):
            keys[f"{oracle.NAMESPACE}.callqueue.capacity.weights"] = ",".join(map(str, weights))
        super().__init__(SharedPort(*settings_of(keys, fields["capacity"])))


def drawn(case: Case) -> dict[str, Any]:
    """The levels that the table serves while none of them is ever empty."""
    levels, draws = case.fields["levels"], case.fields["draws"]
    subject = SharedFairCallQueue(
        Case(case.component, case.name, {"capacity": 4096, **case.fields})
    )
    try:
        for level in range(levels):
            subject.stage(str(level), level)
        sequence = []
        for _ in range(draws):
            level = int(subject.claim() or -1)
            sequence.append(level)
            subject.stage(str(level), level)
        runs = [[level, len(list(run))] for level, run in groupby(sequence)]
        told = {"sequence_rle": runs} if case.fields.get("rle") else {"sequence": sequence}
        return {"weights": list(subject.port.policy.weights), **told}
    finally:
        subject.port.close()
