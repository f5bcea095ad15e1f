"""Every operation is cut short before every bytecode that it executes: minutes (`make chaos`)."""

from __future__ import annotations

import pytest

from .arena import OPERATIONS, REBUILDS, Arena
from .kill import Fate

THIRDS = range(3)  # of an operation


@pytest.mark.fault
@pytest.mark.stress
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("fate", [Fate.KILL, Fate.RAISE], ids=lambda fate: fate.name)
def test_an_end_before_every_bytecode(arena: Arena, name: str, fate: Fate, third: int) -> None:
    print(f"{name}: {arena.bytecodes(name, fate, third)} x {fate.value}")


@pytest.mark.fault
@pytest.mark.stress
@pytest.mark.parametrize("name", REBUILDS)
@pytest.mark.parametrize("third", THIRDS)
def test_sigkill_before_every_bytecode_of_who_rebuilds(arena: Arena, name: str, third: int) -> None:
    print(f"{name}: {arena.bytecodes(name, Fate.KILL, third)} x SIGKILL")
