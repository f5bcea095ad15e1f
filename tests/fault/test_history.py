"""The checker finds each kind of broken promise, and nothing in a history that keeps them all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from .history import Connection, read, summary, violations

X_RESULT = ("x", "result", True)


def kept() -> list[Connection]:
    """Everything that may happen."""
    return [
        Connection(
            asked={"a": False, "b": True, "c": False, "d": False, "e": True},
            noted={"n": False},
            answers=[
                ("a", "result", True),
                ("b", "raised", False),
                ("c", "busy", False),
                ("d", "expired", False),
                ("e", "died", False),
            ],
        ),
        Connection(asked={"f": False}, closed=True),
        Connection(asked={"g": False}, left=True),
    ]


RUNS = Counter({"a": 1, "b": 3, "d": 1, "e": 3, "n": 1, "g": 1})


def test_a_history_that_keeps_every_promise() -> None:
    assert list(violations(kept(), RUNS)) == []


@pytest.mark.parametrize(
    ("promise", "broken", "runs"),
    [
        ("I1", Connection(asked={"x": False}, answers=[X_RESULT, X_RESULT]), 1),
        ("I1", Connection(asked={"x": True}, answers=[X_RESULT, ("x", "died", False)]), 2),
        ("I2", Connection(asked={"x": False}), 1),
        ("I2", Connection(asked={"x": False}, closed=True, hung=True), 0),
        ("I3", Connection(asked={"y": False}, answers=[X_RESULT], closed=True), 1),
        ("I3", Connection(asked={"y": False}, answers=[(None, "busy", False)], closed=True), 0),
        ("I3", Connection(asked={"x": False}, answers=[("x", "result", False)]), 1),
        ("I3", Connection(asked={"x": False}, answers=[("x", "-32603", False)]), 1),
        ("I3", Connection(noted={"x": False}, answers=[X_RESULT]), 1),
        ("I4", Connection(asked={"x": False}, answers=[X_RESULT]), 2),
        ("I4", Connection(asked={"x": True}, answers=[X_RESULT]), 4),
        ("I4", Connection(asked={"x": False}, closed=True), 2),
        ("I4", Connection(noted={"x": False}), 2),
        ("I5", Connection(asked={"x": False}, answers=[X_RESULT]), 0),
        ("I5", Connection(asked={"x": False}, answers=[("x", "raised", False)]), 0),
        ("I5", Connection(asked={"x": False}, answers=[("x", "busy", False)]), 1),
    ],
)
def test_a_broken_promise_is_found(promise: str, broken: Connection, runs: int) -> None:
    found = list(violations([*kept(), broken], RUNS | Counter({"x": runs})))
    assert [sentence[:2] for sentence in found] == [promise]


def test_what_clients_write_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(connection.line() for connection in kept()))
    found = list(read([path]))
    assert [c.line() for c in found] == [c.line() for c in kept()]
    assert list(violations(found, RUNS)) == []
    counts = summary(found, RUNS)
    assert (counts["asked"], counts["unanswered"], counts["rerun"]) == (7, 2, 2)
