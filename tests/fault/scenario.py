"""Operations to be cut short, and what must be true when they were.

A scenario prepares a world and returns its `Act`. `endure` then lets one process meet its fate
somewhere in the operation, lets the janitor recover, finishes everything else, and verifies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

from faircall.shm.layout import Geometry
from faircall.shm.policy import QueuePolicy

from .kill import Fate, bytecodes, meet, stores
from .world import POLICY, SMALL, World

READER, HANDLER = "reader", "handler"
NEVER = 1 << 40  # a point behind the end of every operation


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
    geometry: Geometry = SMALL

    @property
    def name(self) -> str:
        return getattr(self.prepare, "__name__", "") + self.variant


class Stage:
    """A world prepared for one scenario, to which it can be put back."""

    def __init__(self, scenario: Scenario) -> None:
        self.world = World(scenario.policy, scenario.geometry)
        self.act = scenario.prepare(self.world)
        self.start = self.world.snapshot()
        self.act.operation()
        self.world.finish()
        self.order = self.world.run_order()
        self.world.restore(self.start)

    def close(self) -> None:
        self.world.close()

    def die(self, fate: Fate, point: int) -> bool:
        """From the start, the victim dies before bytecode `point`; False if it ended before."""
        self.world.restore(self.start)
        met = meet(fate, point, self.act.operation)
        self.act.at_once()
        return met

    def settle(self, others_first: bool) -> None:
        """Recover, finish everything, and verify.

        With `others_first` the living finish what they can before the janitor does anything.
        """
        if others_first:
            self.world.others_work()
            self.world.reader(1).gather()
        self._recover()
        assert self.world.audit() == []
        self.act.repaired()
        self.world.finish()
        self.world.verify()
        self._verify_order(others_first)
        self.act.finished()

    def _recover(self) -> None:
        self.world.shared.locks_touched()
        for role, number in self.act.dead:
            if role == READER:
                self.world.bury_reader(number)
            else:
                self.world.bury_handler(number)

    def _verify_order(self, others_first: bool) -> None:
        """A death must not reorder calls; but those of a dead handler return when it is buried."""
        if self.act.keeps_order and not (others_first and (HANDLER, 0) in self.act.dead):
            for ran, wanted in zip(self.world.run_order(), self.order, strict=True):
                both = {*ran} & {*wanted}
                in_order = [tag for tag in wanted if tag in both]
                assert [tag for tag in ran if tag in both] == in_order, "the order changed"


def endure_stores(scenario: Scenario, fates: Mapping[Fate, slice]) -> dict[Fate, int]:
    """Deaths of each fate behind these of the stores, and an end without; how many of each.

    Janitor and others take turns in being first.
    """
    with closing(Stage(scenario)) as stage:
        points = stores(stage.act.operation, stage.world.watched())
        for fate, sample in fates.items():
            for index, point in enumerate(points[sample]):
                assert stage.die(fate, point), f"there is no bytecode {point}"
                stage.settle(others_first=bool(index % 2))
        assert not stage.die(Fate.KILL, NEVER)
        stage.settle(others_first=False)
    return {fate: len(points[sample]) for fate, sample in fates.items()}


def endure_bytecodes(scenario: Scenario, fate: Fate, third: int) -> int:
    """Deaths before every bytecode of a third of the operation (0, 1 or 2); how many.

    Worlds that are left alike are settled twice.
    """
    with closing(Stage(scenario)) as stage:
        count = bytecodes(stage.act.operation)
        points = range(1 + count * third // 3, 1 + count * (third + 1) // 3)
        left: Counter[bytes] = Counter()
        for point in points:
            assert stage.die(fate, point), f"there is no bytecode {point}"
            digest = stage.world.digest()
            left[digest] += 1
            if left[digest] <= 2:
                stage.settle(others_first=left[digest] == 2)
    return len(points)
