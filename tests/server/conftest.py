"""What these tests share: worlds of a reader, and a small port whose words they store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from faircall.server.port import Port

from ..conftest import Load
from .reader_world import World
from .small_port import Traffic, small_port


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


@pytest.fixture
def port(load: Load) -> Iterator[Port]:
    with small_port(load) as made:
        yield made


@pytest.fixture
def traffic(port: Port) -> Traffic:
    return Traffic(port)
