"""Every operation is cut short behind each of its stores: by SIGKILL, and by an exception.

What a dead process leaves depends on its stores alone, so these are all the worlds that there are.
"""

from __future__ import annotations

import pytest

from .arena import OPERATIONS, REBUILDS, Arena
from .kill import Fate


@pytest.mark.fault
@pytest.mark.parametrize("name", OPERATIONS)
def test_sigkill_behind_every_store(arena: Arena, name: str) -> None:
    assert arena.stores(name, Fate.KILL) > 2


@pytest.mark.fault
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_exception_behind_every_fifth_store(arena: Arena, name: str) -> None:
    assert arena.stores(name, Fate.RAISE, step=5) > 0


@pytest.mark.fault
@pytest.mark.parametrize("name", REBUILDS)
def test_sigkill_behind_every_store_of_who_rebuilds(arena: Arena, name: str) -> None:
    assert arena.stores(name, Fate.KILL) > 2
