"""A server in virtual time: users, one call queue, some handlers, and no clock but the events.

Reader:   level = scheduler.level_of; charge on arrival; put (refused calls are dropped, or tried
          again by a connection that waits for its answer)
Handler:  takes the next call whenever it is free, and is busy for the call's service time
Janitor:  a sweep every `period_ms`

Arrivals of an open loop are a Poisson process; the seed is a parameter, so every run is the same.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from faircall.scheduling.admission import Admission
from faircall.scheduling.call_queue import CallQueue
from faircall.scheduling.cost import PhaseTimes
from faircall.scheduling.identity import Caller

MS = 1_000_000
RETRY_NS = 10 * MS


@dataclass(frozen=True, kw_only=True)
class User:
    """Sends `rate` calls per second (open loop), or keeps `connections` busy (closed loop)."""

    name: str
    service_ms: float = 1.0
    rate: float = 0.0
    connections: int = 0

    @property
    def service_ns(self) -> int:
        """How long one of its calls keeps a handler busy."""
        return round(self.service_ms * MS)


@dataclass(frozen=True)
class Call:
    """A call on its way through the server."""

    user: User
    level: int
    arrived_ns: int
    charged: int

    @property
    def identity(self) -> str:
        return self.user.name


@dataclass
class Outcome:
    """What happened, per window of one period; window 0 is the first."""

    served: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    waits_ms: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    levels: list[dict[str, int]] = field(default_factory=list)

    def rate(self, name: str, windows: range, period_ms: int) -> float:
        """Served calls per second in those windows."""
        calls = sum(self.served[window][name] for window in windows)
        return calls * 1000.0 / (period_ms * len(windows))

    def wait_ms(self, name: str, windows: range, quantile: float = 0.99) -> float:
        """A quantile of the time that calls served in those windows waited in the queue."""
        waits = sorted(wait for window, wait in self.waits_ms[name] if window in windows)
        return waits[min(int(quantile * len(waits)), len(waits) - 1)]


class Server:
    """One simulated server; `run` may be called once."""

    def __init__(
        self, calls: CallQueue[Call], users: list[User], *, handlers: int, period_ms: int, seed: int
    ) -> None:
        self.outcome = Outcome()
        self._calls, self._users = calls, users
        self._period_ns = period_ms * MS
        self._random = random.Random(seed)
        self._idle = handlers
        self._events: list[tuple[int, int, str, User | Call | None]] = []
        self._order: Iterator[int] = count()

    def run(self, periods: int) -> Outcome:
        """Plays that many periods from an empty server."""
        self._at(self._period_ns, "sweep", None)
        for user in self._users:
            for _ in range(user.connections):
                self._at(0, "arrive", user)
            if user.rate:
                self._at(self._gap_ns(user), "arrive", user)
        while self._events and self._events[0][0] <= periods * self._period_ns:
            now_ns, _, kind, subject = heappop(self._events)
            getattr(self, f"_{kind}")(now_ns, subject)
            self._serve(now_ns)
        return self.outcome

    def _at(self, when_ns: int, kind: str, subject: User | Call | None) -> None:
        heappush(self._events, (when_ns, next(self._order), kind, subject))

    def _gap_ns(self, user: User) -> int:
        return round(self._random.expovariate(user.rate) * 1e9)

    def _arrive(self, now_ns: int, user: User) -> None:
        scheduler, caller = self._calls.scheduler, Caller(user.name)
        level = scheduler.level_of(caller)
        call = Call(user, level, now_ns, scheduler.arrive(caller, user.service_ns))
        admitted = self._calls.put(call)
        if user.rate:
            self._at(now_ns + self._gap_ns(user), "arrive", user)
        elif admitted is not Admission.QUEUED:
            self._at(now_ns + RETRY_NS, "arrive", user)

    def _serve(self, now_ns: int) -> None:
        while self._idle and (call := self._calls.poll()):
            self._idle -= 1
            wait_ms = (now_ns - call.arrived_ns) / MS
            self.outcome.waits_ms[call.user.name].append((now_ns // self._period_ns, wait_ms))
            self._at(now_ns + call.user.service_ns, "complete", call)

    def _complete(self, now_ns: int, call: Call) -> None:
        self._idle += 1
        service_ns = call.user.service_ns
        waited_ns = now_ns - service_ns - call.arrived_ns
        times = {"queue": waited_ns, "processing": service_ns, "lockfree": service_ns}
        caller = Caller(call.user.name)
        self._calls.scheduler.complete(caller, call.level, PhaseTimes.of(times), call.charged)
        self.outcome.served[now_ns // self._period_ns][call.user.name] += 1
        if call.user.connections:
            self._at(now_ns, "arrive", call.user)

    def _sweep(self, now_ns: int, _: None) -> None:
        scheduler = self._calls.scheduler
        scheduler.sweep()
        self.outcome.levels.append(
            {user.name: scheduler.level_of(Caller(user.name)) for user in self._users}
        )
        self._at(now_ns + self._period_ns, "sweep", None)
