"""A process is stopped within a section (SIGSTOP): the hook of who waits kills it."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from faircall.shm.mutex import RobustMutex

from . import handlers, readers
from .kill import stop_at, stores, wait_for
from .scenario import Scenario, Stage

PARTS = (0.15, 0.5, 0.85)  # of an operation's stores


def scenario_named(name: str) -> Scenario:
    return next(s for s in (*readers.SCENARIOS, *handlers.SCENARIOS) if s.name == name)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Watch:
    """The hook of all locks: it kills who holds one, if that is the stopped victim."""

    def __init__(self, stage: Stage) -> None:
        table, names = stage.world.table, stage.world.names
        self.locks: list[RobustMutex] = [table.queue_lock, *table.answer_locks]
        self.locks += [table.pages.lock, names.lock]
        self.hits = 0
        self.pid = self.killed = 0
        for lock in self.locks:
            lock.on_stuck = self.on_stuck

    def on_stuck(self, owner: int) -> None:
        assert owner == self.pid
        if owner == self.killed:  # it needs a processor to die, and there are others who want one
            return
        assert is_stopped(owner)
        self.hits += 1
        os.kill(owner, signal.SIGKILL)
        self.killed = owner

    def held(self) -> list[str]:
        return [lock.name for lock in self.locks if lock.owner()]


@pytest.mark.fault
@pytest.mark.parametrize(
    "name", ["enqueue", "withdraw_waiting", "claim_several", "publish", "new_identities"]
)
def test_a_stopped_owner_is_killed_and_its_work_repaired(name: str) -> None:
    with closing(Stage(scenario_named(name))) as stage:
        stop_at_parts(stage)


def stop_at_parts(stage: Stage) -> None:
    world, watch = stage.world, Watch(stage)
    points = stores(stage.act.operation, world.watched())
    for part in PARTS:
        world.restore(stage.start)
        watch.pid = stop_at(points[int(part * len(points))], stage.act.operation)
        hits, held = watch.hits, watch.held()
        assert world.shared.locks_touched() == len(held)
        assert watch.hits - hits == bool(held), f"{held} held, and nobody was killed for it"
        os.kill(watch.pid, signal.SIGKILL)
        wait_for(watch.pid)
        stage.settle(others_first=False)
    assert watch.hits, "no point lay within a section"
