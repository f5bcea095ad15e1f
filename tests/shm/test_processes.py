from __future__ import annotations

import os
from dataclasses import replace

import pytest

from faircall.shm import states
from faircall.shm.layout import PROCESS
from faircall.shm.processes import ROLES, ProcessRow, ServerPhase, process_index
from faircall.shm.states import Phase

from ..fault.kill import start, wait_for
from ..fault.world import SMALL, World

GEOMETRY = replace(SMALL, readers=3, handlers=5)


def test_every_process_has_an_index_of_its_own() -> None:
    counts = {"reader": 3, "handler": 5, "acceptor": 1, "janitor": 1, "admin": 1}
    assert set(counts) == set(ROLES)
    indices = [process_index(GEOMETRY, role, n) for role in ROLES for n in range(counts[role])]
    assert indices == list(range(GEOMETRY.processes))


def test_a_word_is_read_and_stored_by_its_name(world: World) -> None:
    row = ProcessRow(world.shared.segment, 3)
    for number, field in enumerate(PROCESS.names or ()):
        row[field] = number + 1
        assert world.q[row.word(field)] == number + 1
    assert [row[field] for field in PROCESS.names or ()] == list(
        range(1, len(PROCESS.names or ()) + 1)
    )
    other = ProcessRow(world.shared.segment, 1)
    assert [other[field] for field in PROCESS.names or ()] == [0] * len(PROCESS.names or ())


def test_a_new_process_finds_a_clean_record(world: World) -> None:
    """But for a settlement that its predecessor had decided, which is still to be done."""
    row = ProcessRow(world.shared.segment, 1)
    for field in PROCESS.names or ():
        row[field] = 99
    row.prepare(now_ns=5)
    kept = {"incarnation": 100, "started_ns": 5, "beat_ns": 5, "status": states.Life.STARTING}
    for field in PROCESS.names or ():
        left = 99 if field.startswith("settle_") else 0
        assert row[field] == kept.get(field, left), field


def test_a_process_enters_its_own_pid(world: World) -> None:
    row = world.shared.expect("handler", 1)
    assert row["pid"] == 0
    pid = start(row.enter)
    assert wait_for(pid) == 0
    assert row["pid"] == pid != os.getpid()


@pytest.mark.parametrize("phase", Phase)
def test_the_phase_is_what_the_supervisor_published(world: World, phase: Phase) -> None:
    server = ServerPhase(world.shared.segment)
    assert server.get() is Phase.STARTING
    server.set(phase, now_ns=7)
    assert world.shared.phase.get() is phase
    assert [later for later in Phase if not server.reached(later)] == list(Phase)[phase + 1 :]
