"""Calls in flight one by one, read from their slots without a lock.

A slot's words are copied, then its state word is compared: a call that moved on meanwhile is left
out, or shown as what it was.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from ...shm import states
from ...shm.draws import LANE_NAMES
from ...shm.layout import GROUP_SHIFT, SLOT, word_of
from ...shm.states import META_LENGTH
from ...shm.table import IN_GROUP
from ...workers.envelope import CarriedMeta, take_carried
from ..groups import groups_of
from .throttle import ThrottleStats

if TYPE_CHECKING:
    from ..port import Port

MS = 1_000_000
_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_LOW = 0xFFFF_FFFF
_WAITING = (states.QUEUED, states.HELD)

Words = npt.NDArray[np.uint64]


class Slots:
    """All slots of a port, copied at once: shape (calls, words)."""

    def __init__(self, port: Port) -> None:
        self._port, self.shared = port, port.shared
        self.words: Words = port.shared.table.words.copy()
        self.state = (self.words[:, 0] & np.uint64(states.STATE_MASK)).astype(np.intp)
        self._throttle = ThrottleStats(port.shared)

    def waiting(self) -> npt.NDArray[np.intp]:
        """Those that are queued or held: by level, then in the order of their turns."""
        slots = np.flatnonzero(np.isin(self.state, _WAITING))
        turn, seq = (self.words[slots, _S[name]] for name in ("turn", "seq"))
        counted = self.shared.table.rings.by_level(slots, turn)
        turn = np.where(self.state[slots] == states.QUEUED, counted, turn)
        return slots[np.lexsort((seq, turn, self.level(slots)))]

    def in_flight(self) -> npt.NDArray[np.intp]:
        """All that are not free, the oldest first."""
        slots = np.flatnonzero(self.state != states.FREE)
        return slots[np.argsort(self.words[slots, _S["arrived_ns"]], kind="stable")]

    def of(self, row: int) -> npt.NDArray[np.bool_]:
        """Which slots hold a call that is charged to identity `row`, or takes its turns."""
        used = self.state != states.FREE
        mine = [self.words[:, _S[name]] & np.uint64(_LOW) for name in ("identity", "principal")]
        found: npt.NDArray[np.bool_] = used & ((mine[0] == row) | (mine[1] == row))
        return found

    def level(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        shifted = self.words[slots, 0] >> np.uint64(states.LEVEL_SHIFT)
        levels: npt.NDArray[np.intp] = (shifted & np.uint64(states.LEVEL_MASK)).astype(np.intp)
        return levels

    def describe(self, slot: int, now_ns: int) -> dict[str, Any]:
        """What an operator may want to know of one call."""
        words = self.words[slot].tolist()
        methods, method = self.shared.names.methods, words[_S["call"]] & _LOW
        carried = self.carried(slot, words)
        deadline_ns = words[_S["deadline_ns"]]
        return {
            "method": methods.name(method) if method < methods.count else "",
            "user": (carried and carried.user) or self._identity(words[_S["principal"]]),
            "charged": self._identity(words[_S["identity"]]),
            "context": carried.caller_context if carried else None,
            "level": self.level_name(words[0] >> states.LEVEL_SHIFT & states.LEVEL_MASK),
            **self._group(words[0] >> states.LEVEL_SHIFT & states.LEVEL_MASK),
            "age_ms": max(0, now_ns - words[_S["arrived_ns"]]) // MS,
            "left_ms": (deadline_ns - now_ns) // MS if deadline_ns < 1 << 62 else None,
            "held_by": self.held_by(words),
        }

    def claimed_ms(self, slot: int, now_ns: int) -> int:
        """Since when its handler has it."""
        return max(0, now_ns - int(self.words[slot, _S["claimed_ns"]])) // MS

    def level_name(self, level: int) -> int | str:
        """A level's number, or the name of a lane."""
        lane = (level := level & IN_GROUP) - self.shared.geometry.levels
        return level if lane < 0 else LANE_NAMES[lane]

    def _group(self, ring: int) -> dict[str, str]:
        """The group of the call, if there are several."""
        groups, number = groups_of(self._port.settings), ring >> GROUP_SHIFT
        return {"group": groups[number].name} if 1 < len(groups) > number else {}

    def held_by(self, words: list[int]) -> str | None:
        """The limiter that holds the call, or that has let it go."""
        row = words[_S["held_by"]] - 1
        if not self.shared.rates.read()[0] or not 0 <= row < self.shared.geometry.limiters:
            return None
        if words[0] & states.STATE_MASK != states.HELD:
            return None
        return self._throttle.limiter(row)

    def carried(self, slot: int, words: list[int]) -> CarriedMeta | None:
        """What the reader has put in front of the request: a newcomer's name, the caller context.
        None also if the call is over meanwhile."""
        if not words[_S["call"]] >> states.FLAGS_SHIFT & states.WITH_META:
            return None
        request = words[_S["request"]]
        try:
            place, length = request & _LOW, request >> 32
            size = int.from_bytes(self.shared.pages.read(place, META_LENGTH), "big")
            body = self.shared.pages.read(place, min(length, META_LENGTH + size))
            meta, _ = take_carried(body)
        except (ValueError, IndexError, msgspec.DecodeError):  # its page has another request by now
            return None
        still = int(self.shared.table.words[slot, 0]) >> states.GENERATION_SHIFT
        return meta if still == words[0] >> states.GENERATION_SHIFT else None

    def _identity(self, reference: int) -> str:
        names, row = self.shared.names, reference & _LOW
        if row >= names.identities.count or names.reference(row) != reference:
            return ""
        return names.identities.name(row)


def waits_of(port: Port, row: int, name: str, now_ns: int) -> dict[str, Any]:
    """What the calls of identity `row` wait for."""
    slots = Slots(port)
    mine = slots.of(row) if row >= 0 else np.zeros(len(slots.state), bool)
    waiting = np.flatnonzero(mine & np.isin(slots.state, _WAITING))
    held = Counter(slots.held_by(slots.words[slot].tolist()) for slot in waiting.tolist())
    held.pop(None, 0)
    arrived_ns = slots.words[waiting, _S["arrived_ns"]]
    levels = Counter(slots.level_name(level) for level in slots.level(waiting).tolist())
    return {
        "waiting": len(waiting),
        "running": int((mine & (slots.state == states.RUNNING)).sum()),
        "oldest_ms": (now_ns - int(arrived_ns.min())) // MS if len(waiting) else None,
        "levels": [{"level": level, "waiting": count} for level, count in levels.most_common()],
        "held": [{"limiter": limiter, "calls": count} for limiter, count in held.most_common()],
    }
