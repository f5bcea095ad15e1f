"""What the tests of the reader share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .reader_world import World


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    """Makes worlds with settings of their own; see `World`."""
    worlds: list[World] = []

    def make(**settings: Any) -> World:
        worlds.append(World(**settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
