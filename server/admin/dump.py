"""`faircall dump`: what is in a port's queue, slots, levels and handlers at this moment.

    queues     calls that wait, in the order in which each level serves them
    requests   all calls in flight, the oldest first, with their state
    levels     weight, capacity, what waits, and where the cursor stands
    handlers   what each of them runs, for whom, and for how long

Ages are in milliseconds since the call arrived, `left_ms` until its deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...shm import states
from ...shm.draws import LANE_NAMES
from ...shm.layout import MAX_LEVELS
from ..groups import groups_of
from .queues import Rings, policy_in_force
from .slots import Slots

if TYPE_CHECKING:
    from ..port import Port

MOST, DEFAULT_MOST = 10_000, 1000


def dump(port: Port, what: str, most: int, now_ns: int) -> dict[str, Any]:
    """At most `most` rows of one of DUMPS, and how many there are."""
    rows, total = DUMPS[what](port, most, now_ns)
    return {"port": port.number, "what": what, "total": total, "rows": rows}


def _queues(port: Port, most: int, now_ns: int) -> tuple[list[dict[str, Any]], int]:
    slots = Slots(port)
    waiting = slots.waiting()
    return [slots.describe(slot, now_ns) for slot in waiting[:most].tolist()], len(waiting)


def _requests(port: Port, most: int, now_ns: int) -> tuple[list[dict[str, Any]], int]:
    slots = Slots(port)
    found = slots.in_flight()
    rows = []
    for slot in found[:most].tolist():
        word = int(slots.words[slot, 0])
        handler = _handler_of(port, word)
        rows.append(
            {
                "slot": slot,
                "state": states.STATES[word & states.STATE_MASK],
                **slots.describe(slot, now_ns),
                "handler": handler,
                "attempts": word >> states.ATTEMPT_SHIFT & states.ATTEMPT_MASK,
            }
        )
    return rows, len(found)


def _handler_of(port: Port, word: int) -> int | None:
    """The number of the handler that has claimed the call."""
    owner = word >> states.OWNER_SHIFT & states.OWNER_MASK
    return owner if owner < port.shared.geometry.handlers else None


def _levels(port: Port, most: int, now_ns: int) -> tuple[list[dict[str, Any]], int]:
    groups = groups_of(port.settings)
    rings = Rings(port.shared)
    rows: list[dict[str, Any]] = []
    for number, group in enumerate(groups):
        named = {"group": group.name} if len(groups) > 1 else {}
        rows += [named | row for row in _levels_of(port, number, rings)]
    return rows[:most], len(rows)


def _levels_of(port: Port, group: int, rings: Rings) -> list[dict[str, Any]]:
    """The levels of one group of handlers, and its lanes that are used."""
    shared, policy = port.shared, policy_in_force(port.shared)
    q, draws = shared.segment.q, shared.table.group_draws[group]
    waiting, cursor = rings.by_class[group], q[draws.cursor_word]
    rows: list[dict[str, Any]] = [
        {
            "level": level,
            "weight": policy.weights[level],
            "capacity": policy.rooms[group * MAX_LEVELS + level],
            "waiting": int(waiting[level].sum()),
            "short": int(waiting[level][states.SHORT]),
            "held": int(rings.held[group, level]),
            "overflowed": int(rings.overflowed[group, level]),
            "turn": int(rings.turns[group, level]),
            "cursor": cursor == level,
            "draws_left": q[draws.credit_word] if cursor == level else None,
        }
        for level in range(policy.levels)
    ]
    first = shared.geometry.levels
    for lane, name in enumerate(LANE_NAMES):
        if policy.lane_shares[lane] or waiting[first + lane].any():
            size = int(waiting[first + lane].sum())
            rows.append(
                {"level": name, "waiting": size, "max_share": policy.lane_shares[lane] / 1000}
            )
    return rows


def _handlers(port: Port, most: int, now_ns: int) -> tuple[list[dict[str, Any]], int]:
    slots, shared, rows = Slots(port), port.shared, []
    for number in range(shared.geometry.handlers):
        row = shared.row("handler", number)
        if row.is_vacant:
            continue
        found: dict[str, Any] = {"handler": number, "pid": row["pid"], "runs": False}
        if shared.geometry.groups > 1:
            found["group"] = groups_of(port.settings)[shared.geometry.group_of(number)].name
        if shared.geometry.is_express(number):
            found["express"] = True
        slot, generation = row.begun
        if 0 <= slot < shared.geometry.calls:
            words = slots.words[slot]
            if int(words[0]) >> states.GENERATION_SHIFT == generation:
                found |= {"runs": True, **slots.describe(slot, now_ns)}
                found["ran_ms"] = slots.claimed_ms(slot, now_ns)
        found.pop("held_by", None)
        rows.append(found)
    return rows[:most], len(rows)


DUMPS: dict[str, Callable[[Port, int, int], tuple[list[dict[str, Any]], int]]] = {
    "queues": _queues,
    "requests": _requests,
    "levels": _levels,
    "handlers": _handlers,
}
