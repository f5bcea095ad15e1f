from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from faircall.shm.layout import Geometry
from faircall.shm.policy import QueuePolicy

from ..fault.world import POLICY, SMALL, World

MakeWorld = Callable[..., World]


@pytest.fixture
def make_world() -> Iterator[MakeWorld]:
    """Makes worlds of a policy and a geometry; they are closed at the end of the test."""
    made: list[World] = []

    def make(policy: QueuePolicy = POLICY, geometry: Geometry = SMALL) -> World:
        made.append(World(policy, geometry))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """A small server's shared memory, with nothing in it."""
    return make_world()
