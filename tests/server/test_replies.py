"""Complete answers, whoever made them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faircall.server.reader.exchange import Batch, PendingCall
from faircall.server.reader.replies import Replies
from faircall.shm import states
from faircall.shm.columns import Counter
from faircall.shm.layout import COUNTERS
from faircall.shm.states import Status
from faircall.workers.envelope import decode
from faircall.workers.errors import error_object

from .reader_client import batch, call

ERROR = error_object(-32005, reason="queue_full")


class Exchanges:
    """In place of a connection: the answers, and the statuses that they were sent with."""

    def __init__(self) -> None:
        self.bodies: list[bytes | None] = []
        self.statuses: list[int] = []

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> None:
        self.bodies.append(body)
        self.statuses.append(status)

    @property
    def answers(self) -> list[Any]:
        return [json.loads(body) if body else None for body in self.bodies]


class Desk:
    def __init__(self) -> None:
        self.counts = memoryview(bytearray(8 * COUNTERS)).cast("Q")
        self.exchanges: Any = Exchanges()
        self.replies = Replies(self.counts, 503, decode)

    def pending(self, id_: bytes | None = b"1", flags: int = 0) -> PendingCall:
        return PendingCall(self.exchanges, 1, id_, None, flags)

    @property
    def answer(self) -> Any:
        return self.exchanges.answers[-1]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_result_and_an_error_are_put_into_their_envelopes(desk: Desk) -> None:
    desk.replies.deliver(desk.pending(b'"a"'), Status.RESULT, b"[1,2]")
    desk.replies.deliver(desk.pending(b"null"), Status.ERROR, b'{"code":5,"message":"m"}')
    assert desk.exchanges.answers == [
        {"jsonrpc": "2.0", "id": "a", "result": [1, 2]},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 5, "message": "m"}},
    ]
    assert desk.counts[Counter.ANSWERED] == 2


def test_a_whole_message_is_passed_on_as_it_is(desk: Desk) -> None:
    desk.replies.deliver(desk.pending(b"", states.UNDECODED), Status.MESSAGE, b"[{}]")
    desk.replies.deliver(desk.pending(b"", states.UNDECODED), Status.MESSAGE, b"")
    assert desk.exchanges.bodies == [b"[{}]", None]


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (Status.DIED, -32053, "handler_died"),
        (Status.EXPIRED, -32050, "deadline_exceeded"),
        (Status.TOO_LARGE, -32054, "too_large"),
        (Status.NO_ROOM, -32603, "no_room_for_answer"),
    ],
)
def test_what_has_no_body_says_why(desk: Desk, status: int, code: int, reason: str) -> None:
    desk.replies.deliver(desk.pending(), status, b"")
    error = desk.answer["error"]
    assert (error["code"], error["data"]["reason"]) == (code, reason)


@pytest.mark.parametrize("status", [Status.DIED, Status.NO_ROOM])
@pytest.mark.parametrize("flags", [0, states.IDEMPOTENT])
def test_what_may_have_run_is_retriable_if_it_is_idempotent(
    desk: Desk, status: int, flags: int
) -> None:
    desk.replies.deliver(desk.pending(flags=flags), status, b"")
    assert desk.answer["error"]["data"]["retriable"] is bool(flags)


def test_a_notification_is_settled_without_an_answer(desk: Desk) -> None:
    desk.replies.deliver(desk.pending(None), Status.RESULT, b"1")
    desk.replies.refuse(desk.pending(None), ERROR)
    assert desk.exchanges.bodies == [None, None]


def test_nobody_waits_and_nothing_is_said(desk: Desk) -> None:
    nobody = PendingCall(None, 1, b"1")
    desk.replies.settle(nobody, b"{}")
    desk.replies.refuse(nobody, ERROR)
    assert desk.counts[Counter.ANSWERED] == 0


def test_an_item_of_a_batch_goes_to_its_batch(desk: Desk) -> None:
    both = Batch(desk.exchanges, 1, 2, 1000)
    for id_ in (b"1", b"2"):
        desk.replies.refuse(PendingCall(desk.exchanges, 1, id_, both), ERROR)
    assert [each["id"] for each in desk.answer] == [1, 2]


def test_only_overload_has_the_status_of_overload(desk: Desk) -> None:
    desk.replies.refuse(desk.pending(), ERROR)
    desk.replies.refuse(desk.pending(), ERROR, busy=True)
    desk.replies.refuse(desk.pending(None), ERROR, busy=True)
    assert desk.exchanges.statuses == [200, 503, 200]


def test_an_undecoded_message_is_refused_with_all_of_its_ids(desk: Desk) -> None:
    message = batch(call("a", id=1), call("b"), b'{"id":3}', call("c", id="four"))
    desk.replies.refuse(desk.pending(b"", states.UNDECODED), ERROR, message)
    assert [(each["id"], each["error"]["code"]) for each in desk.answer] == [
        (1, -32005),
        (3, -32600),
        ("four", -32005),
    ]


def test_an_undecoded_single_call_is_refused_as_one(desk: Desk) -> None:
    desk.replies.refuse(desk.pending(b"", states.UNDECODED), ERROR, call("a", id=1))
    assert desk.answer["id"] == 1


def test_undecoded_notifications_are_refused_without_a_word(desk: Desk) -> None:
    message = batch(call("a"), call("b"))
    desk.replies.refuse(desk.pending(b"", states.UNDECODED), ERROR, message)
    assert desk.exchanges.bodies == [None]
