"""The answers of a batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faircall.server.reader.exchange import Batch, PendingCall


class Exchanges:
    """In place of a connection: what was answered to which exchange."""

    def __init__(self) -> None:
        self.answered: list[tuple[int, Any]] = []

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> None:
        self.answered.append((exchange, None if body is None else json.loads(body)))


@pytest.fixture
def exchanges() -> Exchanges:
    return Exchanges()


def batch_of(exchanges: Any, items: int, most: int = 1000) -> Batch:
    return Batch(exchanges, 7, items, most)


def test_a_batch_is_answered_when_its_last_item_is(exchanges: Exchanges) -> None:
    batch = batch_of(exchanges, 3)
    batch.settle(b"2", b'{"id":2}')
    batch.settle(b"1", b'{"id":1}')
    assert exchanges.answered == []
    batch.settle(b"3", b'{"id":3}')
    assert exchanges.answered == [(7, [{"id": 2}, {"id": 1}, {"id": 3}])]


def test_a_notification_adds_no_answer(exchanges: Exchanges) -> None:
    batch = batch_of(exchanges, 2)
    batch.settle(None, b'{"id":null}')
    batch.settle(b"1", b'{"id":1}')
    assert exchanges.answered == [(7, [{"id": 1}])]


def test_notifications_alone_are_answered_with_nothing(exchanges: Exchanges) -> None:
    batch = batch_of(exchanges, 2)
    batch.settle(None, b"")
    batch.settle(None, b"")
    assert exchanges.answered == [(7, None)]


def test_the_sum_of_the_answers_is_bounded(exchanges: Exchanges) -> None:
    batch = batch_of(exchanges, 3, most=100)
    long = b'{"id":1,"result":"%s"}' % (b"x" * 60)
    batch.settle(b"1", long)
    batch.settle(b'"two"', long)
    batch.settle(b"3", b"{}")
    _, (first, second, third) = exchanges.answered[0]
    assert first == json.loads(long)
    assert (second["id"], second["error"]["code"]) == ("two", -32054)
    assert third["error"]["code"] == -32054  # the error took what was left


def test_a_pending_call_waits_for_nothing_at_first() -> None:
    pending = PendingCall(None, 7, b"1")
    assert (pending.deadline_ns, pending.flags, pending.blocked) == (0, 0, False)
    assert pending.batch is None
