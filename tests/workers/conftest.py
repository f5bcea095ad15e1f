"""What the tests of this folder share. No property test of it is measured by the clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from faircall.workers.handler import HandlerLimits

from .handler_desk import MAX_ANSWER_BYTES, Desk, Methods

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture
def methods() -> Methods:
    return Methods()


@pytest.fixture
def desk(methods: Methods) -> Iterator[Desk]:
    made = methods.desk = Desk(methods.service, HandlerLimits(max_answer_bytes=MAX_ANSWER_BYTES))
    made.during(lambda: None)
    yield made
    made.close()
