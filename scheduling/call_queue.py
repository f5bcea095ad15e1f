"""A queue with its scheduler, as a reader and a handler use them (Hadoop: `CallQueueManager`).

With back-off enabled a call is refused if its scheduler says so, or if there is no room; otherwise
the reader waits for room (BLOCKED). `offer` only asks whether there is room.

A live swap (`refreshCallQueue`, HADOOP-10302) builds a new queue and scheduler beside the old ones.
From then on calls are put into the new queue, while handlers first drain the old one; the old
scheduler decides until that is done.

Differs: a swap is all or nothing. Hadoop takes over the fail-over flag, and stops the old
scheduler's metrics, before it finds that the new queue cannot be built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from .admission import Admission, backoff_form
from .capacity import parse_weights
from .components import build
from .conf import Conf
from .errors import BadValue
from .identity import Caller
from .parsing import boolean
from .queues import Queue, QueueSettings
from .scheduler import RpcScheduler
from .turns import C

DEFAULT_LEVELS = 4
FAILOVER_KEY = "callqueue.overflow.trigger.failover"


def priority_levels(conf: Conf) -> int:
    """The number of levels; the deprecated key wins if it is not zero. BadValue, NotParseable."""
    levels = conf.integer("faircallqueue.priority-levels", 0)
    levels = levels or conf.integer("scheduler.priority.levels", DEFAULT_LEVELS)
    if levels < 1:
        raise BadValue(f"scheduler.priority.levels must be at least 1, not {levels}")
    return levels


def failover_enabled(conf: Conf) -> bool:
    """Whether an overflow sends clients to another server."""
    return boolean(conf.inherited(FAILOVER_KEY) or "", False)


@dataclass(frozen=True)
class Parts(Generic[C]):
    """A queue and its scheduler, built together."""

    queue: Queue[C]
    scheduler: RpcScheduler
    failover: bool = False

    @classmethod
    def from_conf(
        cls, conf: Conf, queue_class: type, scheduler_class: type, capacity: int
    ) -> Parts[C]:
        """Both from one configuration; BadValue, NotParseable, NotBuilt."""
        levels = priority_levels(conf)
        scheduler: Any = build(scheduler_class, levels, levels, conf)
        settings = QueueSettings(
            levels=levels,
            capacity=capacity,
            capacity_weights=parse_weights(levels, conf),
            failover=failover_enabled(conf),
            conf=conf,
        )
        queue: Any = build(queue_class, capacity, settings)
        return cls(queue, scheduler, settings.failover)


class CallQueue(Generic[C]):
    """The queue of one server: calls are put at one end and taken at the other."""

    def __init__(self, parts: Parts[C], *, backoff: bool = False) -> None:
        self.backoff = backoff
        self._new = self._old = parts

    @property
    def scheduler(self) -> RpcScheduler:
        """The scheduler that decides now."""
        return self._old.scheduler

    @property
    def failover(self) -> bool:
        """Whether refusals send clients to another server."""
        return self._new.failover

    @property
    def putting(self) -> Queue[C]:
        """The queue that new calls go into."""
        return self._new.queue

    @property
    def taking(self) -> Queue[C]:
        """The queue that handlers take from."""
        return self._old.queue

    def level_of(self, caller: Caller) -> int:
        """The level for a new call."""
        return self.scheduler.level_of(caller)

    def put(self, call: C) -> Admission:
        """What a reader does: waits for room, or refuses if back-off is enabled."""
        return self.add(call) if self.backoff else self.putting.put(call)

    def add(self, call: C) -> Admission:
        """Queues the call or refuses it; back-off by policy only if it is enabled."""
        if self.backoff and self.scheduler.backs_off(call.level):
            return backoff_form(self.failover)
        admission = self.putting.add(call)
        return backoff_form(self.failover) if admission is Admission.FULL else admission

    def offer(self, call: C) -> bool:
        """Queues the call if there is room; never backs off."""
        return self.putting.offer(call)

    def poll(self) -> C | None:
        """Takes the next call, from the old queue while a swap drains it."""
        self.finish_swap()
        return self.taking.poll()

    def swap(self, parts: Parts[C]) -> bool:
        """Puts go to `parts` from now on. Whether takes do, too: at once if nothing waits."""
        self._new = parts
        return self.finish_swap()

    def finish_swap(self) -> bool:
        """Takes from the new queue if the old one is drained. Whether no swap is going on."""
        if not len(self.taking):
            self._old = self._new
        return self._old is self._new
