"""Where answers lie and when they are handed over; long messages; what a death leaves."""

from __future__ import annotations

import json
import select
from typing import Any

import pytest

from faircall.shm import doorbells, states
from faircall.shm.layout import SMALL_PAGE
from faircall.shm.states import Status

from .handler_desk import MAX_ANSWER_BYTES, Desk, Methods


def count(desk: Desk, counter: int) -> int:
    return desk.shared.columns.total(counter)


def row(desk: Desk, field: str) -> int:
    return desk.shared.row("handler")[field]


def result(body: bytes) -> tuple[int, bytes]:
    return Status.RESULT, body


# -- where the answer lies -------------------------------------------------------------------------


def test_a_short_answer_lies_in_the_page_of_its_request(desk: Desk) -> None:
    free = desk.shared.pages.free_pages()
    request = b'["' + b"x" * 1000 + b'"]'
    slot = desk.put("echo", request)
    desk.work()
    assert desk.get(slot, "answer_page") == 1024 << 32 | desk.get(slot, "request") & 0xFFFF_FFFF
    assert desk.shared.pages.free_pages() == (free[0] - 1, free[1])
    assert desk.collect() == {slot: result(request[1:-1])}


@pytest.mark.parametrize("size", [2000, 2014, 2015, 2048, 5000, 16_384, 100_000])
def test_an_answer_of_any_size_arrives(desk: Desk, size: int) -> None:
    request = b'["' + b"x" * size + b'"]'
    slot = desk.put("echo", request)
    desk.work()
    assert desk.collect() == {slot: result(request[1:-1])}
    beside = desk.get(slot, "answer_page") >> 32
    assert bool(beside) == (-(-len(request) // 64) * 64 + size + 2 <= SMALL_PAGE)


def test_an_answer_that_is_too_long_says_so(desk: Desk) -> None:
    request = b'["' + b"x" * MAX_ANSWER_BYTES + b'"]'
    slot = desk.put("echo", request)
    desk.work()
    assert desk.collect() == {slot: (Status.TOO_LARGE, b"")}


def test_without_a_page_the_answer_is_that_there_was_no_room(desk: Desk) -> None:
    first = desk.put("echo", b'["' + b"x" * 140_000 + b'"]')  # three of four large pages
    second = desk.put("echo", b'["x"]')
    while desk.work():
        pass
    assert desk.collect() == {first: (Status.NO_ROOM, b""), second: result(b'"x"')}


# -- several calls ---------------------------------------------------------------------------------


def test_short_calls_are_claimed_together_while_nobody_is_idle(desk: Desk) -> None:
    desk.expect("echo", 40_000)
    slots = [desk.put("echo") for _ in range(7)]
    assert desk.work() == 5  # 200 us of them
    assert desk.work() == 2
    assert set(desk.collect()) == set(slots)


def test_calls_of_unknown_length_are_claimed_one_by_one(desk: Desk) -> None:
    for _ in range(2):
        desk.put("echo")
    assert [desk.work(), desk.work(), desk.work()] == [1, 1, 0]


def test_answers_do_not_wait_for_a_call_that_takes_longer_than_expected(
    desk: Desk, methods: Methods
) -> None:
    for name in ("echo", "spend", "pause"):
        desk.expect(name, 1000)
    slots = [desk.put("echo"), desk.put("spend", b"[5]"), desk.put("echo"), desk.put("pause")]
    found: list[int] = []
    desk.during(lambda: found.extend(desk.collect()))
    assert desk.work() == 4
    assert found == slots[:2]  # handed over after the long one, before the last one ran
    assert list(desk.collect()) == slots[2:]


def test_answers_do_not_wait_for_a_call_of_unknown_length(desk: Desk, methods: Methods) -> None:
    desk.expect("echo", 1000)
    slots = [desk.put("echo"), desk.put("echo"), desk.put("pause")]
    found: list[int] = []
    desk.during(lambda: found.extend(desk.collect()))
    assert desk.work() == 3, "they were claimed together"
    assert found == slots[:2]


def test_each_reader_gets_its_answers_and_is_rung_if_it_sleeps(desk: Desk) -> None:
    desk.expect("echo", 1000)
    ours, theirs = desk.put("echo", reader=0), desk.put("echo", reader=1)
    desk.shared.row("reader", 1)["sleeping"] = doorbells.ANY_AGE
    assert desk.work() == 2
    bells = desk.shared.doorbells.readers
    assert [bool(select.select([bell], [], [], 0)[0]) for bell in bells] == [False, True]
    assert (list(desk.collect(0)), list(desk.collect(1))) == ([ours], [theirs])


# -- undecoded messages ----------------------------------------------------------------------------


def undecoded(desk: Desk, *items: dict[str, Any], timeout_ms: float = 1000) -> Any:
    """The answer to a batch that the reader has only framed."""
    message = json.dumps([{"jsonrpc": "2.0", **item} for item in items]).encode()
    slot = desk.put("(undecoded)", message, flags=states.UNDECODED, timeout_ms=timeout_ms)
    desk.work()
    status, body = desk.collect()[slot]
    assert status == Status.MESSAGE
    return json.loads(body) if body else None


@pytest.fixture
def framed(desk: Desk) -> Desk:
    desk.shared.names.method("(undecoded)", 0, 0)
    return desk


def test_the_items_of_a_message_are_charged_but_for_the_first(framed: Desk) -> None:
    """That one was charged by the reader."""
    items = [{"method": "echo", "params": [number], "id": number} for number in range(4)]
    answers = undecoded(framed, *items, {"method": "echo"})
    assert [each["result"] for each in answers] == [0, 1, 2, 3]
    assert int(framed.shared.columns.cost_totals()[framed.user]) == 4
    assert int(framed.shared.columns.call_totals()[framed.user]) == 4


def test_items_after_the_deadline_do_not_begin(framed: Desk, methods: Methods) -> None:
    long, late = {"method": "spend", "params": [20], "id": 1}, {"method": "pause", "id": 2}
    answers = undecoded(framed, long, late, timeout_ms=10)
    assert (answers[0]["result"], answers[1]["error"]["code"]) == ("spent", -32050)
    assert methods.seen == []


def test_items_after_a_cancel_do_not_begin(framed: Desk, methods: Methods) -> None:
    framed.during(lambda: framed.withdraw(0))
    answers = undecoded(framed, {"method": "pause", "id": 1}, {"method": "pause", "id": 2})
    assert answers[1]["error"]["code"] == -32051
    assert len(methods.seen) == 1


def test_an_item_has_the_time_that_it_asks_for(framed: Desk, methods: Methods) -> None:
    asked = {"method": "pause", "id": 1, "meta": {"timeout_ms": 5}}
    undecoded(framed, asked, {"method": "pause", "id": 2})
    assert [each.remaining() for each in methods.seen] == [pytest.approx(0.005), 1.0]


# -- death -----------------------------------------------------------------------------------------


def test_a_call_that_ends_its_process_is_the_only_one_that_dies(desk: Desk) -> None:
    for name in ("echo", "end_once"):
        desk.expect(name, 1000)
    done, ending, waiting = desk.put("echo"), desk.put("end_once"), desk.put("echo")
    with pytest.raises(SystemExit):
        desk.work()
    assert desk.reap() == {"answered": [done], "died": [ending], "requeued": [waiting]}
    assert desk.work() == 1
    answers = desk.collect()
    assert answers[ending] == (Status.DIED, b"")
    assert answers[done] == answers[waiting] == result(b"null")


def test_an_idempotent_call_may_end_three_processes(desk: Desk) -> None:
    slot = desk.put("end")
    outcomes = []
    for _ in range(3):
        with pytest.raises(SystemExit):
            desk.work()
        outcomes.append({what for what, slots in desk.reap().items() if slots})
    assert outcomes == [{"requeued"}, {"requeued"}, {"died"}]
    assert desk.collect() == {slot: (Status.DIED, b"")}
