"""The scenario of batches runs, and says what it is about."""

from __future__ import annotations

import pytest

from faircall.perf.batching import rows


@pytest.mark.slow
def test_rows() -> None:
    found = rows(1.0, callers=2, each=4, methods={"together": "model"})
    assert [(row["invocations"], row["in flight"]) for row in found] == [
        ("together", 8),
        ("together", 1),
    ]
    assert all(row["mean ms"] for row in found)
