"""Every operation is cut short behind its stores: by SIGKILL, and by an exception.

What a dead process leaves depends on its stores alone, so these are all the worlds that there are.
Of an operation only a third is taken, another third of each operation's neighbours, which make the
same stores in other worlds. All of them are taken when mutants are tested (EVERY_STORE); and `make
chaos` kills before every bytecode (test_every_opcode.py).
"""

from __future__ import annotations

import os

import pytest

from .arena import OPERATIONS, REBUILDS, Arena
from .kill import Fate
from .mutants import EVERY_STORE

STEP = 1 if EVERY_STORE in os.environ else 3
EXCEPTIONS = 5  # an exception is the costly end: behind every fifth store, at any rate


def killed(number: int) -> slice:
    """Which of its stores the operation with this number is killed behind."""
    return slice(number % STEP, None, STEP)


@pytest.mark.fault
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_end_behind_a_store(arena: Arena, name: str) -> None:
    sample = killed(OPERATIONS.index(name))
    ends = arena.stores(name, {Fate.KILL: sample, Fate.RAISE: slice(0, None, EXCEPTIONS)})
    assert ends[Fate.KILL] > 2 // STEP
    assert ends[Fate.RAISE] > 0


@pytest.mark.fault
@pytest.mark.parametrize("name", REBUILDS)
def test_sigkill_of_who_rebuilds_behind_a_store(arena: Arena, name: str) -> None:
    ends = arena.stores(name, {Fate.KILL: killed(REBUILDS.index(name))})
    assert ends[Fate.KILL] > 2 // STEP
