from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Event

Drain = Callable[[Wire], list[Event]]


@pytest.fixture(scope="session")
def drain() -> Drain:
    """Takes events until there is none."""

    def take_all(wire: Wire) -> list[Event]:
        events = []
        while (event := wire.next_event()) is not None:
            events.append(event)
        return events

    return take_all
