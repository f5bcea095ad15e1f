"""Tells when its calls were claimed, by the words of their slots."""

from __future__ import annotations

from typing import Any

from faircall import Service, current_call
from faircall.shm.layout import SLOT, word_of

service = Service("stamps")


@service.method
def claimed_ns() -> int:
    look: Any = current_call().is_abandoned
    words = dict(zip(look.__code__.co_freevars, look.__closure__ or (), strict=True))
    stamp: int = words["q"].cell_contents[words["own"].cell_contents + word_of(SLOT, "claimed_ns")]
    return stamp
