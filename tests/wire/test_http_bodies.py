from __future__ import annotations

from collections.abc import Callable

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Event, Health, HttpMeta, Message, Send
from faircall.server.wire.limits import WireLimits

Drain = Callable[[Wire], list[Event]]
HEAD = b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CONTINUE = Send(b"HTTP/1.1 100 Continue\r\n\r\n")


def sized(body: bytes, *headers: bytes) -> bytes:
    extra = b"".join(header + b"\r\n" for header in headers)
    return HEAD + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body


def status_of(event: Event) -> int:
    assert isinstance(event, Send)
    return int(event.data.split(b" ", 2)[1])


def test_a_body_may_be_empty(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"") + sized(b"{}"))
    assert drain(wire) == [Message(1, b"", HttpMeta()), Message(2, b"{}", HttpMeta())]


@pytest.mark.parametrize(
    "chunks",
    [
        b"5\r\nhello\r\n0\r\n\r\n",
        b'2;ext="v"\r\nhe\r\n003\r\nllo\r\n000;x\r\nX-Trailer: 1\r\n\r\n',
        b"1\r\nh\r\n1\r\ne\r\n1\r\nl\r\n1\r\nl\r\n1\r\no\r\n0\r\n\r\n",
    ],
)
def test_chunks_are_joined(drain: Drain, chunks: bytes) -> None:
    wire = Wire(WireLimits())
    wire.receive(CHUNKED + chunks + sized(b"{}"))
    assert drain(wire) == [Message(1, b"hello", HttpMeta()), Message(2, b"{}", HttpMeta())]


@pytest.mark.parametrize(
    "chunks",
    [
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"\r\n5\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"5;a\nb\r\nhello\r\n0\r\n\r\n",
        b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5;" + b"x" * 2000 + b"\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nnonsense\r\n\r\n",
        b"5\r\nhello\r\n0\r\nX : y\r\n\r\n",
    ],
)
def test_chunks_that_leave_doubt_end_the_connection(drain: Drain, chunks: bytes) -> None:
    wire = Wire(WireLimits())
    wire.receive(CHUNKED + chunks)
    refusal, close = drain(wire)
    assert status_of(refusal) == 400
    assert close == Close()


def test_a_sized_body_above_the_limit_is_refused_at_its_head(drain: Drain) -> None:
    wire = Wire(WireLimits(max_message_bytes=10))
    wire.receive(sized(b"x" * 10) + sized(b"x" * 11))
    message, refusal = drain(wire)
    assert isinstance(message, Message)
    assert refusal == Send(b"")
    assert wire.answer(1, b"{}").count(b"HTTP/1.1 413 ") == 1
    assert drain(wire) == [Close()]


def test_chunks_above_the_limit_are_refused_at_the_size_that_breaks_it(drain: Drain) -> None:
    wire = Wire(WireLimits(max_message_bytes=10))
    wire.receive(CHUNKED + b"a\r\n" + b"x" * 10 + b"\r\n1\r\n")
    refusal, close = drain(wire)
    assert status_of(refusal) == 413
    assert close == Close()


def test_trailers_have_the_limit_of_headers(drain: Drain) -> None:
    wire = Wire(WireLimits(max_header_bytes=200))
    wire.receive(CHUNKED + b"0\r\n" + b"X-Trailer: yyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 6)
    assert status_of(drain(wire)[0]) == 431


@pytest.mark.parametrize("rest", [sized(b"x" * 5000), CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"])
def test_the_body_of_a_refused_request_is_passed_over(drain: Drain, rest: bytes) -> None:
    wire = Wire(WireLimits())
    refused = rest.replace(b"/rpc", b"/nope", 1)
    events: list[Event] = []
    for start in range(0, len(refused), 100):
        wire.receive(refused[start : start + 100])
        events += drain(wire)
        assert wire.buffered < 300
    wire.receive(sized(b"{}"))
    assert [status_of(event) for event in events] == [404]
    assert drain(wire) == [Message(2, b"{}", HttpMeta())]


def test_the_body_of_a_probe_is_passed_over(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"x" * 4999)
    assert drain(wire) == []
    assert wire.buffered == 0
    assert wire.mid_message
    wire.receive(b"x")
    assert drain(wire) == [Health(1, "livez")]


def test_a_refused_request_is_answered_once_even_if_its_body_is_broken(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(CHUNKED.replace(b"/rpc", b"/nope", 1) + b"nonsense\r\n")
    refusal, close = drain(wire)
    assert status_of(refusal) == 404
    assert close == Close()


def test_who_expects_a_100_gets_it_before_the_body(drain: Drain) -> None:
    wire = Wire(WireLimits())
    request = sized(b"{}", b"Expect: 100-continue")
    wire.receive(request[:-2])
    assert drain(wire) == [CONTINUE]
    assert wire.mid_message
    wire.receive(request[-2:])
    assert drain(wire) == [Message(1, b"{}", HttpMeta())]


def test_a_100_does_not_overtake_the_answers_before_it(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"[1]") + sized(b"[2]", b"Expect: 100-continue")[:-3])
    assert drain(wire) == [Message(1, b"[1]", HttpMeta())]
    assert wire.answer(1, b"{}").endswith(b"{}" + CONTINUE.data)


def test_a_100_waits_for_all_of_them(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"[1]") + sized(b"[2]") + sized(b"[3]", b"Expect: 100-continue")[:-3])
    drain(wire)
    assert wire.answer(1, b"{}").endswith(b"{}")
    assert wire.answer(2, b"{}").endswith(b"{}" + CONTINUE.data)


def test_a_100_that_came_too_late_is_not_sent(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"[1]") + sized(b"[2]", b"Expect: 100-continue"))
    assert len(drain(wire)) == 2
    assert CONTINUE.data not in wire.answer(1, b"{}")


def test_who_is_refused_while_expecting_a_100_is_not_read_further(drain: Drain) -> None:
    wire = Wire(WireLimits(max_message_bytes=1000))
    too_large = sized(b"x" * 1001, b"Expect: 100-continue")[:-1001]
    unknown = sized(b"{}", b"Expect: 100-continue").replace(b"/rpc", b"/nope")[:-2]
    for sent, status in ((too_large, 413), (unknown, 404)):
        wire = Wire(WireLimits(max_message_bytes=1000))
        wire.receive(sent)
        refusal, close = drain(wire)
        assert status_of(refusal) == status
        assert close == Close()


@pytest.mark.parametrize("cut", [30, len(HEAD), -1])
def test_the_end_inside_a_request_is_refused(drain: Drain, cut: int) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"{}")[:cut])
    assert drain(wire) == []
    assert wire.mid_message
    wire.receive_eof()
    refusal, close = drain(wire)
    assert status_of(refusal) == 400
    assert close == Close()


def test_after_the_end_of_the_stream_everything_is_still_answered(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"[1]") + sized(b"[2]"))
    wire.receive_eof()
    assert len(drain(wire)) == 2
    assert wire.answer(2, b"2") == b""
    assert not wire.wants_close
    assert wire.answer(1, b"1").count(b"HTTP/1.1 200 OK") == 2
    assert drain(wire) == [Close()]


@pytest.mark.parametrize("cut", [30, -1])
def test_a_request_that_takes_too_long_gets_408(drain: Drain, cut: int) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"{}")[:cut])
    assert drain(wire) == []
    refusal, close = wire.timed_out()
    assert status_of(refusal) == 408
    assert close == Close()
    assert wire.wants_close


def test_a_408_waits_for_the_answers_before_it(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"{}") + HEAD)
    drain(wire)
    assert wire.timed_out() == [Send(b"")]
    assert b"HTTP/1.1 408 " in wire.answer(1, b"{}")
    assert drain(wire) == [Close()]


def test_an_idle_connection_that_times_out_is_closed_without_a_408(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(sized(b"{}"))
    drain(wire)
    wire.answer(1, b"{}")
    assert not wire.mid_message
    assert wire.timed_out() == [Close()]
