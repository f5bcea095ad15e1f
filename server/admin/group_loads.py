"""How busy each group of handlers is, and what waits for it; nothing where there is only one.

A port with an idle group and a jammed one is half busy, and callers of the second wait for seconds:
so whether it is overloaded is asked of each group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...scheduling import overload
from ...shm.layout import MAX_LEVELS
from ...shm.top_callers import REASONS, THROTTLED
from ..groups import groups_of, number_of
from .contributions import Contribution
from .queues import policy_in_force

if TYPE_CHECKING:
    from ..port import Port

LIMITED = REASONS[THROTTLED]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoad:
    """`busy` is the mean of the handlers' shares of time in user code, 0 to 1; `methods` are
    patterns; `waiting` calls wait for a handler, and `held` for the opening of a limit; there is
    room for `capacity`. Calls that
    a limit refuses are not counted."""

    group: str
    methods: tuple[str, ...]
    handlers: int
    busy: float
    running: int
    waiting: int
    held: int
    capacity: int
    refused_per_s: float
    is_overloaded: bool


def group_loads(
    port: Port, busy: Sequence[float], found: Iterable[Contribution]
) -> tuple[GroupLoad, ...]:
    """Each group at its number; `busy` is of each handler, `found` what callers do of late."""
    groups, shared = groups_of(port.settings), port.shared
    if len(groups) == 1:
        return ()
    refused = [0.0] * len(groups)
    for each in found:
        for_room = [rate for reason, rate in each.rates.refused.items() if reason != LIMITED]
        refused[number_of(groups, each.method)] += sum(for_room)
    q, table, policy = shared.segment.q, shared.table, policy_in_force(shared)
    held = shared.segment.words(shared.segment.layout.level_held, shared.geometry.ring_numbers)
    loads = []
    for number, group in enumerate(groups):
        places, handlers = shared.geometry.handlers_of(number), shared.working_of(number)
        rows = [shared.row("handler", handler) for handler in places]
        is_busy = min(1.0, sum(busy[handler] for handler in places) / max(1, handlers))
        waiting, refused_per_s = q[table.waiting_words[number]], round(refused[number], 1)
        first = number * MAX_LEVELS
        loads.append(
            GroupLoad(
                group=group.name,
                methods=group.patterns,
                handlers=handlers,
                busy=round(is_busy, 3),
                running=sum(bool(row["current"]) for row in rows if not row.is_vacant),
                waiting=waiting,
                held=int(held[first : first + MAX_LEVELS].sum()),
                capacity=sum(policy.rooms[first : first + policy.levels]),
                refused_per_s=refused_per_s,
                is_overloaded=overload.is_overloaded(is_busy, waiting, handlers, refused_per_s),
            )
        )
    return tuple(loads)
