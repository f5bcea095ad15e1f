"""What the janitor does after a death. Every step may be done twice, by one janitor after another.

The supervisor has waited for the dead process: it cannot write any more.
"""

from __future__ import annotations

import numpy as np

from ..shm import states
from ..shm.layout import SLOT, word_of
from ..shm.recovery import is_complete
from ..shm.shared import Shared

_ANSWER = word_of(SLOT, "answer")


def reap(shared: Shared, role: str, number: int) -> dict[str, int]:
    """Settle what a dead process left behind; how many calls became what."""
    shared.locks_touched()
    outcome: dict[str, int] = {}
    if role == "handler":
        outcome = _reap_handler(shared, number)
    elif role == "reader":
        outcome = _reap_reader(shared, number)
    shared.doorbells.ring_all()  # whatever wake-up died with it
    return outcome


def _reap_handler(shared: Shared, number: int) -> dict[str, int]:
    """Its calls are answered, or wait again.

    The pages of answers that it did not finish are given back *before* that: as soon as a call
    waits again another handler may run it, and take pages for the same slot.
    """
    pages = sum(map(shared.pages.give_back_unlinked, unanswered(shared, number)))
    settled = shared.table.recovery.reap_handler(number)
    return {what: len(slots) for what, slots in settled.items()} | {"pages": pages}


def unanswered(shared: Shared, handler: int) -> list[int]:
    """The slots that the dead `handler` had claimed and whose answers are not complete."""
    words = shared.table.words
    state = words[:, 0] & np.uint64(states.STATE_MASK)
    owner = words[:, 0] >> np.uint64(states.OWNER_SHIFT) & np.uint64(states.OWNER_MASK)
    running = (state == states.RUNNING) | (state == states.ABANDONED)
    slots: list[int] = np.flatnonzero(running & (owner == handler)).tolist()
    return [slot for slot in slots if not _is_answered(shared, slot)]


def _is_answered(shared: Shared, slot: int) -> bool:
    words = shared.table.words[slot]
    return is_complete(int(words[_ANSWER]), int(words[0]) >> states.GENERATION_SHIFT)


def _reap_reader(shared: Shared, number: int) -> dict[str, int]:
    """Its calls are dropped or given up; its pages are free, which the stacks have to learn."""
    found = shared.table.recovery.reap_reader(number)
    with shared.pages.lock:
        shared.pages.rebuild()
    return {state.lower(): count for state, count in found.items() if state != "FREE"}
