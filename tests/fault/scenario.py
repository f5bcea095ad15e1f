"""Operations to be cut short, and what must be true when they were.

A scenario prepares a world and returns its `Act`. `endure` then lets one process meet its fate
somewhere in the operation, lets the janitor recover, finishes everything else, and verifies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from faircall.shm.policy import QueuePolicy

from .kill import Fate, meet
from .world import POLICY, World

READER, HANDLER = "reader", "handler"


def _nothing() -> None:
    """No check of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What happens: `operation` is cut short, and `dead` are all those who are dead then."""

    operation: Callable[[], object]
    dead: tuple[tuple[str, int], ...] = ()
    keeps_order: bool = True  # what runs, runs per level in the order of an undisturbed world
    at_once: Callable[[], None] = _nothing  # right after the death; reads words, takes no lock
    repaired: Callable[[], None] = _nothing  # after the janitor's work
    finished: Callable[[], None] = _nothing  # after everything was run and collected


@dataclass(frozen=True, slots=True)
class Scenario:
    """`prepare` makes the Act in a world with `policy`; `variant` tells two policies apart."""

    prepare: Callable[[World], Act]
    policy: QueuePolicy = POLICY
    variant: str = ""

    @property
    def name(self) -> str:
        return getattr(self.prepare, "__name__", "") + self.variant


class Stage:
    """A world prepared for one scenario, to which it can be put back."""

    def __init__(self, scenario: Scenario) -> None:
        self.world = World(scenario.policy)
        self.act = scenario.prepare(self.world)
        self.start = self.world.snapshot()
        self.act.operation()
        self.world.finish()
        self.order = self.world.run_order()
        self.world.restore(self.start)

    def endure(self, fate: Fate, point: int, others_first: bool) -> bool:
        """One death at `point`, and everything after it; False if the operation ended before.

        With `others_first` the living finish what they can before the janitor does anything.
        """
        world, act = self.world, self.act
        world.restore(self.start)
        met = meet(fate, point, act.operation)
        act.at_once()
        if others_first and (HANDLER, 1) not in act.dead:
            while world.handler(1).work():
                pass
            world.reader(1).gather()
        self._recover()
        assert world.audit() == []
        act.repaired()
        world.finish()
        world.verify()
        self._verify_order(others_first)
        act.finished()
        return met

    def _recover(self) -> None:
        self.world.shared.locks_touched()
        for role, number in self.act.dead:
            if role == READER:
                self.world.bury_reader(number)
            else:
                self.world.bury_handler(number)

    def _verify_order(self, others_first: bool) -> None:
        """A death must not reorder calls; but what a dead handler had, returns when it is buried."""
        if self.act.keeps_order and not (others_first and (HANDLER, 0) in self.act.dead):
            for ran, wanted in zip(self.world.run_order(), self.order, strict=True):
                both = {*ran} & {*wanted}
                in_order = [tag for tag in wanted if tag in both]
                assert [tag for tag in ran if tag in both] == in_order, "the order changed"


def endure_all(scenario: Scenario, fate: Fate, points: Callable[[Stage], Iterable[int]]) -> int:
    """Deaths at all `points`, and one end without; janitor and others take turns in being first."""
    stage = Stage(scenario)
    count = 0
    for index, point in enumerate(points(stage)):
        assert stage.endure(fate, point, others_first=bool(index % 2)), f"no bytecode {point}"
        count += 1
    assert not stage.endure(fate, 1 << 40, others_first=False)
    return count
