"""The call queues as single-threaded models: what a queue of Hadoop would do, as a return value.

`FairCallQueue` (HADOOP-10282) has one queue per level and draws from the level that its multiplexer
names, or, if that is empty, from the first level that is not. `LinkedBlockingQueue` is plain FIFO.

    operation   own level full            all levels from its own down full
    put         goes down                 BLOCKED (the reader would wait; the call is not queued)
    add         goes down                 refused, in one of the forms of `admission.py`
    offer       False                     False

Each full level that `put` (but for the last level) and `add` try counts one overflow. `poll` on an
empty queue draws nothing. `peek` and `drain` go from the first level down and ignore the
multiplexer. Timed forms are the untimed ones: in a model nothing else happens while it waits.

Differs: levels that do not exist (`capacity.py`); two options that Hadoop 3.x does not have:
`in_turn` (`turns.py`), and `scan="cursor"`, after which an empty draw goes on from the drawn level
(HADOOP-9640) instead of from the top, which favours the first levels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol

from . import capacity as capacities
from .admission import Admission, overflow_form
from .conf import Conf
from .errors import BadValue
from .multiplexer import WeightedRoundRobinMultiplexer
from .turns import ArrivalQueue, C, TurnQueue

Scan = Literal["top", "cursor"]


@dataclass(frozen=True, kw_only=True)
class QueueSettings:
    """What a queue may be built from; queues of one capacity take no more than that."""

    levels: int
    capacity: int
    capacity_weights: list[int] | None = None
    failover: bool = False
    in_turn: bool = False
    scan: Scan = "top"
    conf: Conf = field(default_factory=lambda: Conf({}))


class Queue(Protocol[C]):
    """What every call queue can do."""

    def put(self, call: C) -> Admission:
        """Queues the call, or tells that the reader would have to wait."""

    def add(self, call: C) -> Admission:
        """Queues the call or refuses it."""

    def offer(self, call: C) -> bool:
        """Queues the call, if its own level has room."""

    def poll(self) -> C | None:
        """Takes the next call."""

    def peek(self) -> C | None:
        """The first call of the first level, left where it is."""

    def drain(self, most: int | None = None) -> list[C]:
        """Takes up to `most` calls, all by default, from the first level down."""

    def remaining(self) -> int:
        """How many calls there is room for, over all levels."""

    @property
    def sizes(self) -> list[int]:
        """The waiting calls of each level."""

    @property
    def capacities(self) -> list[int]:
        """The capacity of each level."""

    @property
    def overflowed(self) -> list[int]:
        """How many calls found each level full."""

    def __len__(self) -> int: ...


class LinkedBlockingQueue(Generic[C]):
    """First in, first out, up to `capacity` calls; BadValue if that is not positive."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise BadValue(f"a queue needs room for a call, not for {capacity}")
        self.capacity = capacity
        self._calls: ArrivalQueue[C] = ArrivalQueue()

    def __len__(self) -> int:
        return len(self._calls)

    def put(self, call: C) -> Admission:
        return Admission.QUEUED if self.offer(call) else Admission.BLOCKED

    def add(self, call: C) -> Admission:
        return Admission.QUEUED if self.offer(call) else Admission.FULL

    def offer(self, call: C) -> bool:
        has_room = len(self._calls) < self.capacity
        if has_room:
            self._calls.append(call)
        return has_room

    def poll(self) -> C | None:
        return self._calls.popleft() if len(self._calls) else None

    def peek(self) -> C | None:
        return self._calls.first() if len(self._calls) else None

    def drain(self, most: int | None = None) -> list[C]:
        count = len(self._calls) if most is None else min(most, len(self._calls))
        return [self._calls.popleft() for _ in range(count)]

    def remaining(self) -> int:
        return self.capacity - len(self._calls)

    @property
    def sizes(self) -> list[int]:
        return [len(self._calls)]

    @property
    def capacities(self) -> list[int]:
        return [self.capacity]

    @property
    def overflowed(self) -> list[int]:
        return [0]


class FairCallQueue(Generic[C]):
    """One queue per level, drawn from by weight."""

    def __init__(
        self, settings: QueueSettings, multiplexer: WeightedRoundRobinMultiplexer | None = None
    ) -> None:
        """With the multiplexer weights of the configuration if none is given; BadValue."""
        self.settings = settings
        self.capacities = capacities.split(
            settings.capacity, settings.levels, settings.capacity_weights
        )
        self.multiplexer = multiplexer or WeightedRoundRobinMultiplexer.from_conf(
            settings.levels, settings.conf
        )
        self.overflowed = [0] * settings.levels
        self._levels: list[TurnQueue[C] | ArrivalQueue[C]] = [
            TurnQueue() if settings.in_turn else ArrivalQueue() for _ in range(settings.levels)
        ]

    @classmethod
    def from_conf(cls, settings: QueueSettings) -> FairCallQueue[C]:
        """As the constructor, by the name under which every component is built."""
        return cls(settings)

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        return [len(level) for level in self._levels]

    def remaining(self) -> int:
        return sum(self.capacities) - len(self)

    def put(self, call: C) -> Admission:
        return Admission.QUEUED if self._place(call, counted=self._last) else Admission.BLOCKED

    def add(self, call: C) -> Admission:
        if self._place(call, counted=self.settings.levels):
            return Admission.QUEUED
        return overflow_form(self._level_of(call), self._last, self.settings.failover)

    def offer(self, call: C) -> bool:
        level = self._level_of(call)
        has_room = len(self._levels[level]) < self.capacities[level]
        if has_room:
            self._levels[level].append(call)
        return has_room

    def poll(self) -> C | None:
        if not len(self):
            return None
        drawn = self.multiplexer.draw()
        start = 0 if self.settings.scan == "top" else drawn
        order = [drawn, *((start + step) % len(self._levels) for step in range(len(self._levels)))]
        return next(self._levels[level].popleft() for level in order if len(self._levels[level]))

    def peek(self) -> C | None:
        return next((level.first() for level in self._levels if len(level)), None)

    def drain(self, most: int | None = None) -> list[C]:
        drained: list[C] = []
        for level in self._levels:
            room = len(level) if most is None else min(len(level), most - len(drained))
            drained.extend(level.popleft() for _ in range(room))
        return drained

    @property
    def _last(self) -> int:
        return self.settings.levels - 1

    def _level_of(self, call: C) -> int:
        return capacities.nearest_level(call.level, self.settings.levels)

    def _place(self, call: C, counted: int) -> bool:
        """Queues the call at or below its level; full levels before `counted` overflow."""
        level = self._level_of(call)
        found = capacities.level_with_room(level, self.sizes, self.capacities)
        for full in range(level, counted if found is None else min(found, counted)):
            self.overflowed[full] += 1
        if found is not None:
            self._levels[found].append(call)
        return found is not None
