"""A process takes over a level when it is another than the last one that it has seen."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from faircall.shm.policy import QueuePolicy
from faircall.shm.shared import Shared
from faircall.workers.log_level import LogLevel

from ..fault.world import SMALL


@pytest.fixture
def shared() -> Iterator[Shared]:
    before, made = logging.getLogger().level, Shared(SMALL, QueuePolicy())
    yield made
    made.doorbells.close()
    logging.getLogger().setLevel(before)


def test_a_level_is_taken_over_once(shared: Shared) -> None:
    root, follower = logging.getLogger(), LogLevel(shared)
    shared.logged.set(logging.ERROR)
    follower.follow()
    assert root.level == logging.ERROR
    root.setLevel(logging.INFO)  # the user's code
    follower.follow()
    assert root.level == logging.INFO
    shared.logged.set(logging.DEBUG)
    follower.follow()
    assert root.level == logging.DEBUG


def test_who_begins_later_has_it_by_the_fork(shared: Shared) -> None:
    shared.logged.set(logging.ERROR)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    LogLevel(shared).follow()
    assert root.level == logging.WARNING
