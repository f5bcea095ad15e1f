"""Who overloads a port, since when, and with what: for people, and for what raises an alarm.

    found = Suspects(port, users, now_ns)       `tick` about every second, `overload` whenever asked

`scheduling.overload` says what is an overload and from which part on somebody is a suspect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...scheduling import overload
from ...shm.names import OTHERS
from ..groups import groups_of, number_of
from ..standing import DECAY, level_rules
from .contributions import Contribution, Rates, contributions, of_user, summed
from .group_loads import GroupLoad, group_loads
from .overload_text import sentence
from .recent import Recent
from .user_calls import InFlight, in_flight
from .user_list import UserList

if TYPE_CHECKING:
    from ..port import Port

MOST = 5
FORGET_NS = 10_000_000_000  # since when somebody was a suspect, after he is none any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One of those who overload a port.

    `part` is what it takes, of the cost or of the handlers' time, the larger one; `share` the
    scheduler's, None of a service user. `method`, `context` and `address` are those with the
    highest cost, each with its part of what this user does; "" where there is none.
    """

    port: int
    user: str
    part: float
    share: float | None
    level: int
    calls_per_s: float
    cost_per_s: float
    refused_per_s: float
    handlers_busy: float
    waiting: int
    method: str
    method_part: float
    context: str
    context_part: float
    address: str
    address_part: float
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """How a port is. `suspects`: the largest part first, of what the overloaded groups of handlers
    do; empty while it is not overloaded. `groups` is empty where there is only one."""

    port: int
    is_overloaded: bool
    busy: float
    handlers: int
    waiting: int
    refused_per_s: float
    since_s: float | None
    suspects: tuple[Suspect, ...]
    groups: tuple[GroupLoad, ...]
    sentence: str


class Suspects:
    """Of one port."""

    def __init__(self, port: Port, users: UserList, recent: Recent) -> None:
        self._port, self._users, self._recent = port, users, recent
        self._seen_ns: dict[str, tuple[int, int]] = {}  # user: a suspect since, and at last
        self._overloaded_ns: int | None = None

    def tick(self, now_ns: int) -> None:
        """Note who is a suspect from now on, or still: nobody, where nothing happens."""
        shared = self._port.shared
        if self._users.rests and not shared.runs_any and not shared.table.waiting():
            self._overloaded_ns = None
        else:
            self.overload(now_ns)

    def overload(self, now_ns: int) -> Overload:
        """How the port is now."""
        found = _Moment(self._port, self._users, now_ns)
        recent, handlers = self._recent.rates(now_ns), self._port.shared.working
        busy, refused = recent.busy, recent.refused_per_s
        mean_busy = min(1.0, sum(busy) / handlers)
        waiting = self._port.shared.table.waiting()
        groups = group_loads(self._port, busy, found.who)
        is_over = overload.is_overloaded(mean_busy, waiting, handlers, refused)
        is_over = is_over or any(group.is_overloaded for group in groups)
        self._overloaded_ns = (self._overloaded_ns or now_ns) if is_over else None
        suspects = self._suspects(found, groups, now_ns) if is_over else ()
        return Overload(
            port=self._port.number,
            is_overloaded=is_over,
            busy=round(mean_busy, 3),
            handlers=handlers,
            waiting=waiting,
            refused_per_s=round(refused, 1),
            since_s=_seconds(now_ns - self._overloaded_ns) if self._overloaded_ns else None,
            suspects=suspects,
            groups=groups,
            sentence=sentence(is_over, mean_busy, waiting, refused, suspects, groups),
        )

    def _suspects(
        self, found: _Moment, groups: tuple[GroupLoad, ...], now_ns: int
    ) -> tuple[Suspect, ...]:
        over = [number for number, group in enumerate(groups) if group.is_overloaded]
        if over:
            found.narrow(over)
        least = overload.least_part(found.first_threshold, found.callers())
        parts = found.parts()
        order = np.argsort(-parts, kind="stable")[:MOST].tolist()
        names = [(row, found.rows.name(row)) for row in order if parts[row] >= least]
        for name in [name for name, seen in self._seen_ns.items() if now_ns - seen[1] > FORGET_NS]:
            del self._seen_ns[name]
        for _, name in names:
            since_ns, _ = self._seen_ns.get(name, (now_ns, now_ns))
            self._seen_ns[name] = since_ns, now_ns
        return tuple(
            found.suspect(row, name, float(parts[row]), now_ns - self._seen_ns[name][0])
            for row, name in names
            if name
        )


class _Moment:
    """What is read of a port at one moment, once."""

    def __init__(self, port: Port, users: UserList, now_ns: int) -> None:
        self._port, rules = port, level_rules(port.ipc)
        self.rows = users.rows()
        self.rates = users.rates(self.rows, now_ns)
        decides = rules.scheduler == DECAY and bool(rules.thresholds)
        self.first_threshold = rules.thresholds[0] if decides else overload.DEFAULT_PART
        self._now_ns = now_ns
        self._is_narrow = False

    @functools.cached_property
    def who(self) -> list[Contribution]:
        """What callers do of late."""
        return contributions(self._port.shared, self._now_ns)

    def narrow(self, groups: list[int]) -> None:
        """From now on only what is called of these groups of handlers counts."""
        of_port = groups_of(self._port.settings)
        self.who = [each for each in self.who if number_of(of_port, each.method) in groups]
        self._is_narrow = True

    def callers(self) -> int:
        """Who has called in the last ten seconds; after `narrow`, of late."""
        if self._is_narrow:
            return len({each.user for each in self.who})
        return int(np.count_nonzero(self.rates.calls > 0))

    @functools.cached_property
    def calls(self) -> InFlight:
        """Looked for in all slots: only for suspects."""
        return in_flight(self._port.shared)

    def parts(self) -> npt.NDArray[np.float64]:
        """What each row takes, 0 to 1; shape (identities,)."""
        self.busy, costs = np.zeros(len(self.rows.used)), np.zeros(len(self.rows.used))
        for each in self.who:
            if each.identity >= 0:
                self.busy[each.identity] += each.rates.busy
                costs[each.identity] += each.rates.cost
        cost = np.maximum(costs if self._is_narrow else self.rates.cost, 0)
        of_cost, of_time = (by / (by.sum() or 1.0) for by in (cost, self.busy))
        parts: npt.NDArray[np.float64] = np.maximum(of_cost, of_time)
        parts[OTHERS] = 0
        return parts

    def suspect(self, row: int, name: str, part: float, since_ns: int) -> Suspect:
        rows, rates, own = self.rows, self.rates, of_user(self.who, name, row)
        method, context, address = (
            _first(own, key)
            for key in (lambda e: e.method, lambda e: e.context, lambda e: e.address)
        )
        return Suspect(
            port=self._port.number,
            user=name,
            part=round(part, 4),
            share=rows.share(int(rows.decayed[row])) if rows.ordinary[row] else None,
            level=int(rows.level[row]),
            calls_per_s=round(float(rates.calls[row]), 1),
            cost_per_s=round(float(rates.cost[row]), 1),
            refused_per_s=round(float(rates.refused[row]), 1),
            handlers_busy=round(float(self.busy[row]), 2),
            waiting=int(self.calls.waiting[row]),
            method=method[0],
            method_part=method[1],
            context=context[0],
            context_part=context[1],
            address=address[0],
            address_part=address[1],
            since_s=_seconds(since_ns),
        )


def _first(own: list[Contribution], key: Callable[[Contribution], str]) -> tuple[str, float]:
    """The heaviest by `key`, and its part of all: of the cost, or of the time if that is larger."""
    total = Rates()
    for each in own:
        total.add(each.rates)
    parts = [
        (overload.part_taken(rates.cost, total.cost, rates.busy, total.busy), name)
        for name, rates in summed(own, key)
    ]
    part, name = max(parts, key=lambda pair: pair[0], default=(0.0, ""))
    return name, round(part, 3)


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 1)
