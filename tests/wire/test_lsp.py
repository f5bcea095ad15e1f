from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Event, Message, Send
from faircall.server.wire.limits import WireLimits

Drain = Callable[[Wire], list[Event]]


def code_of(refusal: Event) -> int:
    """The code of a framed error with id null."""
    assert isinstance(refusal, Send)
    header, body = refusal.data.split(b"\r\n\r\n")
    assert header == b"Content-Length: %d" % len(body)
    answer = json.loads(body)
    assert answer["id"] is None
    code = answer["error"]["code"]
    assert isinstance(code, int)
    return code


def test_a_frame_is_a_message_and_its_answer_a_frame(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]")
    assert drain(wire) == [Message(1, b"{}"), Message(2, b"[1]")]
    assert wire.framing == "lsp"
    assert wire.answer(2, b'{"r":1}') == b'Content-Length: 7\r\n\r\n{"r":1}'
    assert wire.answer(1, None) == b""
    assert wire.in_flight == 0


@pytest.mark.parametrize(
    "header",
    [
        b"content-length:2\r\n",
        b"Content-Length: \t2 \r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf8\r\nContent-Length: 2\r\n",
        b'Content-Length: 2\r\nContent-Type: x/y; charset="UTF-8"\r\n',
        b"Content-Length: 2\r\nX-Other: anything at all\r\n",
    ],
)
def test_the_header_may_be_written_differently(drain: Drain, header: bytes) -> None:
    wire = Wire(WireLimits())
    wire.receive(header + b"\r\n{}")
    assert drain(wire) == [Message(1, b"{}")]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\nContent-Length: 2\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length: 1_0\r\n",
        b"Content-Length: \xb2\r\n",
        b"Content-Length: 2,2\r\n",
        b"Content-Length:\r\n",
        b"Content-Length : 2\r\n",
        b"Content-Length: 2\r\n folded\r\n",
        b"Content-Length: 2\rX: y\r\n",
        b"Content-Length: 2\n",
        b"Content-Type: x/y\r\n",
        b"Content-Length: 2\r\nContent-Type: x/y; charset=utf-16\r\n",
        b"Content-Length: 2\r\nnonsense\r\n",
    ],
)
def test_a_header_that_leaves_doubt_ends_the_connection(drain: Drain, header: bytes) -> None:
    wire = Wire(WireLimits())
    wire.receive(header + b"\r\n{}")
    refusal, close = drain(wire)
    assert code_of(refusal) == -32700
    assert close == Close()


def test_a_bare_newline_is_refused_before_the_blank_line(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"Content-Length: 2\n")
    assert code_of(drain(wire)[0]) == -32700


def test_a_frame_above_the_limit_is_refused_at_its_header(drain: Drain) -> None:
    wire = Wire(WireLimits(max_message_bytes=100))
    wire.receive(b"Content-Length: 100\r\n\r\n" + b" " * 100 + b"Content-Length: 101\r\n\r\n")
    message, refusal = drain(wire)
    assert isinstance(message, Message)
    assert code_of(refusal) == -32054
    wire.receive(b" " * 1000)
    assert wire.buffered == 0
    wire.answer(1, b"{}")
    assert drain(wire) == [Close()]


def test_a_header_without_end_is_refused_at_its_limit(drain: Drain) -> None:
    wire = Wire(WireLimits(max_header_bytes=100))
    wire.receive(b"Content-Length: 2\r\nX: " + b"y" * 100)
    assert code_of(drain(wire)[0]) == -32700


def test_garbage_after_a_frame_is_refused(drain: Drain) -> None:
    wire = Wire(WireLimits())
    wire.receive(b"Content-Length: 2\r\n\r\n{}\nContent-Length: 2\r\n\r\n{}")
    message, refusal = drain(wire)
    assert message == Message(1, b"{}")
    assert code_of(refusal) == -32700


def test_the_end_inside_a_frame_is_an_error_and_between_frames_none(drain: Drain) -> None:
    inside, between = Wire(WireLimits()), Wire(WireLimits())
    inside.receive(b"Content-Length: 3\r\n\r\n{}")
    assert drain(inside) == []
    assert inside.mid_message
    inside.receive_eof()
    refusal, close = drain(inside)
    assert code_of(refusal) == -32700
    assert close == Close()
    between.receive(b"Content-Length: 2\r\n\r\n{}")
    between.receive_eof()
    assert drain(between) == [Message(1, b"{}")]
    assert not between.mid_message
    between.answer(1, b"{}")
    assert drain(between) == [Close()]
