"""Calls that handlers have been running for long: readers count what a call took when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...shm.layout import SLOT, word_of
from .slots import Slots

if TYPE_CHECKING:
    from ..port import Port

LONG_NS = 100_000_000

_CLAIMED = word_of(SLOT, "claimed_ns")


class Runner(NamedTuple):
    """A call; `ran_ns` of the last `window_ns`."""

    user: str
    job: str
    method: str
    ran_ns: int


def long_runners(port: Port, now_ns: int, window_ns: int) -> list[Runner]:
    """Those that run for longer than LONG_NS. Slots are copied only if there are any."""
    words, found = port.shared.table.words, []
    for number in range(port.shared.geometry.handlers):
        slot = port.shared.running_slot(number)
        if slot >= 0:
            ran_ns = now_ns - int(words[slot, _CLAIMED])
            if ran_ns > LONG_NS:
                found.append((slot, min(ran_ns, window_ns)))
    if not found:
        return []
    slots, runners = Slots(port), []
    for slot, ran_ns in found:
        call = slots.describe(slot, now_ns)
        if call["user"]:
            runners.append(Runner(call["user"], call["context"] or "", call["method"], ran_ns))
    return runners
