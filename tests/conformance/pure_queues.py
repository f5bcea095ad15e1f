"""The pure queues of `faircall.scheduling` as subjects of the recorded cases.

`QueueOperations` is what any queue answers, given where calls are put and taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from faircall.scheduling import summary
from faircall.scheduling.admission import Admission
from faircall.scheduling.call_queue import CallQueue, Parts
from faircall.scheduling.conf import Conf
from faircall.scheduling.decay_scheduler import DecayRpcScheduler
from faircall.scheduling.queues import FairCallQueue, Queue, QueueSettings
from faircall.scheduling.selection import QUEUES, SCHEDULERS

from . import oracle
from .pure_schedulers import Step, caller_of, complete, conf_of
from .recorded import Case

QUEUE_CLASSES: Mapping[str, type] = {
    "fair": QUEUES["FairCallQueue"],
    "linked": QUEUES["LinkedBlockingQueue"],
    "array": oracle.ArrayBlockingQueue,
    "sync": oracle.SynchronousQueue,
}
SCHEDULER_CLASSES: Mapping[str, type] = {
    "decay": SCHEDULERS["DecayRpcScheduler"],
    "default": SCHEDULERS["DefaultRpcScheduler"],
    "int_ctor": oracle.IntCtorScheduler,
    "noarg": oracle.NoArgScheduler,
    "badctor": oracle.BadCtorScheduler,
}


class Call(NamedTuple):
    """A queued call."""

    id: str
    level: int
    identity: str | None = None


class QueueOperations:
    """The operations that a queue and a call queue have in common."""

    @property
    def queue(self) -> Queue[Call]:
        """Where calls are put."""
        raise NotImplementedError

    @property
    def taking(self) -> Queue[Call]:
        """Where calls are taken."""
        return self.queue

    def putter(self) -> Any:
        """What `put`, `add` and `offer` act on."""
        return self.queue

    def take_one(self) -> str | None:
        """Takes the next call."""
        call = self.taking.poll()
        return call.id if call else None

    def insert(self, via: str, call: Call) -> object:
        """Puts, adds or offers a call."""
        admitted = getattr(self.putter(), via)(call)
        if via == "offer":
            return bool(admitted)
        if isinstance(admitted, Admission) and (admitted.refused or admitted is Admission.FULL):
            return oracle.overflow(admitted)
        if via == "add":
            return True
        return "blocked" if admitted is Admission.BLOCKED else "ok"

    def put(self, step: Step) -> object:
        return self.insert("put", Call(step["id"], step["prio"]))

    def add(self, step: Step) -> object:
        return self.insert("add", Call(step["id"], step["prio"]))

    def offer(self, step: Step) -> object:
        return self.insert("offer", Call(step["id"], step["prio"]))

    offer_timed = offer

    def poll(self, step: Step) -> object:
        if "n" in step:
            return [self.take_one() for _ in range(step["n"])]
        return self.take_one() or "none"

    poll_timed = poll

    def take(self, step: Step) -> str:
        return self.take_one() or "blocked"

    def peek(self, step: Step) -> str:
        call = self.taking.peek()
        return call.id if call else "none"

    def element(self, step: Step) -> str:
        return self._existing(self.taking.peek())

    def remove(self, step: Step) -> str:
        return self._existing(self.taking.poll())

    def size(self, step: Step) -> int:
        return len(self.taking)

    def is_empty(self, step: Step) -> bool:
        return not len(self.taking)

    def remaining(self, step: Step) -> int:
        return self.taking.remaining()

    def sizes(self, step: Step) -> list[int]:
        return self.queue.sizes

    put_sizes = sizes

    def overflowed(self, step: Step) -> list[int]:
        return self.queue.overflowed

    def capacities(self, step: Step) -> list[int]:
        return self.queue.capacities

    def drain(self, step: Step) -> dict[str, Any]:
        drained = self.taking.drain(step.get("max"))
        return {"count": len(drained), "ids": [call.id for call in drained]}

    def iterator(self, step: Step) -> object:
        raise NotImplementedError("calls are taken, not looked through")

    @staticmethod
    def _existing(call: Call | None) -> str:
        if call is None:
            raise oracle.NoSuchElement("the queue is empty")
        return call.id


class PureFairCallQueue(QueueOperations):
    """A FairCallQueue."""

    def __init__(self, case: Case) -> None:
        fields = case.fields
        settings = QueueSettings(
            levels=fields["levels"],
            capacity=fields["capacity"],
            capacity_weights=fields.get("capacity_weights"),
            failover=fields.get("failover", False),
            conf=conf_of(case),
        )
        self._queue: FairCallQueue[Call] = FairCallQueue(settings)

    @property
    def queue(self) -> Queue[Call]:
        return self._queue

    def jmx(self) -> dict[str, Any]:
        """The bean; the revision counts the queues of one process and port."""
        queue = self._queue
        jmx = {"OverflowedCalls": queue.overflowed, "QueueSizes": queue.sizes, "Revision": 1}
        return {"jmx": jmx}


class PureCallQueue(QueueOperations):
    """A CallQueue with its scheduler."""

    def __init__(self, case: Case) -> None:
        parts = self._parts(case.fields, conf_of(case))
        self.calls = CallQueue(parts, backoff=case.fields.get("backoff", False))

    @property
    def queue(self) -> Queue[Call]:
        return self.calls.putting

    @property
    def taking(self) -> Queue[Call]:
        return self.calls.taking

    def putter(self) -> Any:
        return self.calls

    def take_one(self) -> str | None:
        call = self.calls.poll()
        return call.id if call else None

    def enqueue(self, step: Step) -> dict[str, Any]:
        level = self.calls.level_of(caller_of(step))
        inserted = self.insert(step.get("via", "put"), Call(step["id"], level, step["user"]))
        if isinstance(inserted, dict):
            return {"priority": level, **inserted}
        return {"priority": level, "result": inserted}

    def complete(self, step: Step) -> None:
        complete(self.calls.scheduler, step)

    def decay(self, step: Step) -> None:
        self.calls.scheduler.sweep()

    def scheduler_dump(self, step: Step) -> dict[str, Any]:
        assert isinstance(self.calls.scheduler, DecayRpcScheduler)
        return summary.dump(self.calls.scheduler)

    def set_backoff(self, step: Step) -> None:
        self.calls.backoff = step["value"]

    def swap(self, step: Step) -> dict[str, Any]:
        values = {f"{oracle.NAMESPACE}.{key}": text for key, text in step.get("conf", {}).items()}
        drained: list[str | None] = []

        def swap() -> dict[str, str]:
            parts = self._parts(step, Conf(oracle.RUNNING_SYSTEM | values, oracle.NAMESPACE))
            done = self.calls.swap(parts)
            while step.get("drain", True) and not done:
                drained.append(self.take_one())
                done = self.calls.finish_swap()
            return {"result": "ok" if done else "blocked"}

        result = oracle.answer(swap)
        assert isinstance(result, dict)
        return result | {
            "drained_from_old": drained,
            "queue": type(self.queue).__name__,
            "scheduler": type(self.calls.scheduler).__name__,
            "capacities": self.queue.capacities,
            "failover": self.calls.failover,
        }

    @staticmethod
    def _parts(fields: Mapping[str, Any], conf: Conf) -> Parts[Call]:
        queue, scheduler = QUEUE_CLASSES[fields["queue"]], SCHEDULER_CLASSES[fields["scheduler"]]
        return Parts.from_conf(conf, queue, scheduler, fields["capacity"])
