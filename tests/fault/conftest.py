from __future__ import annotations

from collections.abc import Iterator

import pytest

from .arena import Arena


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    """Where scenarios are endured; one per test process."""
    made = Arena()
    yield made
    made.close()
