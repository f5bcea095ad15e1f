"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faircall.workers.handler import HandlerLimits

from .handler_desk import MAX_ANSWER_BYTES, Desk, Methods


@pytest.fixture
def methods() -> Methods:
    return Methods()


@pytest.fixture
def desk(methods: Methods) -> Iterator[Desk]:
    made = methods.desk = Desk(methods.service, HandlerLimits(max_answer_bytes=MAX_ANSWER_BYTES))
    made.during(lambda: None)
    yield made
    made.close()
