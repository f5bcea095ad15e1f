from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Event, Message, Send
from faircall.server.wire.limits import WireLimits

Drain = Callable[[Wire], list[Event]]
SMALL = WireLimits(max_message_bytes=10)


def bodies(events: list[Event]) -> list[bytes]:
    return [event.body for event in events if isinstance(event, Message)]


def test_a_line_is_a_message_and_its_answer_a_line(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b'{"a":1}\n')
    assert drain(wire) == [Message(1, b'{"a":1}')]
    assert wire.framing == "lines"
    assert wire.in_flight == 1
    assert wire.answer(1, b"{}") == b"{}\n"
    assert wire.in_flight == 0
    assert not wire.wants_close


def test_nothing_is_sent_for_notifications(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"{}\n")
    drain(wire)
    assert wire.answer(1, None) == b""
    assert wire.in_flight == 0


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"{}\r\n[]\r\n", [b"{}", b"[]"]),
        (b"{}\n\n\r\n \t\n[]\n", [b"{}", b"[]"]),
        (b" {} \n", [b"{} "]),
        (b'{}\n"x"\nPOST / HTTP/1.1\r\n', [b"{}", b'"x"', b"POST / HTTP/1.1"]),
    ],
    ids=["crlf", "blank lines", "blanks around", "whatever follows"],
)
def test_lines_are_messages_in_order(drain: Drain, sent: bytes, expected: list[bytes]) -> None:
    wire = Wire(WireLimits())
    wire.receive(sent)
    assert bodies(drain(wire)) == expected


def test_answers_leave_in_the_order_in_which_they_are_ready(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"{}\n[]\n")
    drain(wire)
    assert wire.answer(2, b"second") == b"second\n"
    assert wire.answer(1, b"first") == b"first\n"


def test_the_last_line_needs_no_newline(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"{}\n[1]")
    assert bodies(drain(wire)) == [b"{}"]
    assert wire.mid_message
    assert wire.buffered == 3
    wire.receive_eof()
    assert bodies(drain(wire)) == [b"[1]"]


def test_after_the_end_of_the_stream_everything_is_still_answered(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"{}\n[]\n")
    wire.receive_eof()
    assert bodies(drain(wire)) == [b"{}", b"[]"]
    assert wire.input_over
    assert wire.answer(1, b"1") == b"1\n"
    assert not wire.wants_close
    assert wire.answer(2, b"2") == b"2\n"
    assert wire.wants_close
    assert drain(wire) == [Close()]


def test_a_line_of_the_limit_is_a_message(drain: Drain) -> None:
    wire = Wire(SMALL)
    wire.receive(b"[23456789]\n")
    assert bodies(drain(wire)) == [b"[23456789]"]


@pytest.mark.parametrize("sent", [b"[234567890]\n{}\n", b"[234567890", b"[2345678901234567890123"])
def test_a_longer_line_is_refused_and_ends_the_connection(drain: Drain, sent: bytes) -> None:
    wire = Wire(SMALL)
    wire.receive(b"{}\n" + sent + b"1")
    message, refusal = drain(wire)
    assert message == Message(1, b"{}")
    assert isinstance(refusal, Send)
    answer = json.loads(refusal.data)
    assert (answer["id"], answer["error"]["code"]) == (None, -32054)
    assert wire.buffered == 0
    wire.receive(b"{}\n")
    assert drain(wire) == []
    wire.answer(1, b"{}")
    assert wire.wants_close
    assert drain(wire) == [Close()]


def test_what_follows_a_line_too_long_is_no_message_even_if_it_came_at_once(drain: Drain) -> None:
    wire = Wire(SMALL)
    wire.receive(b"[2345678901")
    wire.receive(b"]\n{}\n")
    assert bodies(drain(wire)) == []
    assert wire.wants_close


def test_no_more_than_the_limit_is_kept_of_a_line_without_end(drain: Drain) -> None:
    wire = Wire(WireLimits(max_message_bytes=1000))
    wire.receive(b"[")
    kept = []
    for _ in range(50):
        wire.receive(b"x" * 100)
        drain(wire)
        kept.append(wire.buffered)
    assert max(kept) <= 1000
    assert wire.wants_close


def test_a_reader_may_stop_in_the_middle_and_go_on_later(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"[1]\n[2]\n[3]")
    assert wire.next_event() == Message(1, b"[1]")
    wire.receive(b"\n[4]\n")
    assert bodies(drain(wire)) == [b"[2]", b"[3]", b"[4]"]
    assert not wire.mid_message


def test_a_time_out_closes_once_what_is_in_flight_is_answered(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"{}\n[")
    drain(wire)
    assert wire.timed_out() == []
    assert not wire.mid_message
    assert wire.answer(1, b"{}") == b"{}\n"
    assert wire.wants_close
    assert drain(wire) == [Close()]


def test_lines_know_no_health_probes(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"{}\n")
    drain(wire)
    with pytest.raises(ValueError, match="no health probe"):
        wire.health_answer(1, True, "ok")
