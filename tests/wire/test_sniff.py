from __future__ import annotations

import json

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Send
from faircall.server.wire.limits import WireLimits
from faircall.server.wire.sniff import sniff


@pytest.mark.parametrize(
    ("start", "verdict"),
    [
        (b"", "unknown"),
        (b"{", "lines"),
        (b"[1]\n", "lines"),
        (b"P", "unknown"),
        (b"POST", "unknown"),
        (b"POST ", "http"),
        (b"post ", "http"),
        (b"GET / HTTP/1.1", "http"),
        (b"PRI * HTTP/2.0", "http"),
        (b"Con", "unknown"),
        (b"CONNECT ", "http"),
        (b"Content-", "lsp"),
        (b"content-type:", "lsp"),
        (b"PROXY ", "proxy"),
        (b"\x16", "tls"),
        (b"PX", "refused"),
        (b"GETX", "refused"),
        (b"SSH-2.0", "refused"),
        (b"\x00", "refused"),
        (b'"x"', "refused"),
    ],
)
def test_the_first_bytes_tell_the_framing(start: bytes, verdict: str) -> None:
    assert sniff(start) == verdict


@pytest.mark.parametrize("token", [b"GET ", b"POST ", b"OPTIONS ", b"Content-", b"PROXY "])
def test_every_shorter_start_of_a_token_is_still_unknown(token: bytes) -> None:
    assert {sniff(token[:end]) for end in range(len(token))} == {"unknown"}
    assert sniff(token) != "unknown"


@pytest.mark.parametrize(
    ("sent", "framing"),
    [
        (b"\r\n\n{", "lines"),
        (b" \t[", "lines"),
        (b"\r\nPOST ", "http"),
        (b"\nContent-", "lsp"),
        (b"\r\n \r\n", "unknown"),
    ],
)
def test_blank_lines_may_come_first(sent: bytes, framing: str) -> None:
    wire = Wire(WireLimits())
    wire.receive(sent)
    assert wire.framing == framing


@pytest.mark.parametrize(
    "sent",
    [
        b" POST ",
        b"\tContent-",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        b"\r\n\r\n\x00\r\nQUIT\n!",
        b"*1",
    ],
)
def test_what_is_none_of_the_framings_gets_one_parse_error_and_the_end(sent: bytes) -> None:
    wire = Wire(WireLimits())
    wire.receive(sent)
    refusal = wire.next_event()
    assert isinstance(refusal, Send)
    assert refusal.data.endswith(b"\n")
    answer = json.loads(refusal.data)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert wire.next_event() == Close()
    assert wire.next_event() is None
    assert wire.wants_close


def test_a_tls_handshake_is_closed_without_a_word() -> None:
    wire = Wire(WireLimits())
    wire.receive(b"\x16\x03\x01")
    assert wire.next_event() == Close()


def test_a_connection_that_ends_before_it_begins_is_closed() -> None:
    wire = Wire(WireLimits())
    wire.receive(b"\r\n")
    assert not wire.mid_message
    wire.receive_eof()
    assert wire.next_event() == Close()


def test_a_connection_that_ends_inside_its_first_word_is_told_so() -> None:
    wire = Wire(WireLimits())
    wire.receive(b"PO")
    assert wire.next_event() is None
    assert wire.mid_message
    assert wire.buffered == 2
    wire.receive_eof()
    assert isinstance(wire.next_event(), Send)
    assert wire.next_event() == Close()


def test_blanks_without_end_are_not_kept() -> None:
    wire = Wire(WireLimits())
    for _ in range(100):
        wire.receive(b"\r\n \t" * 100)
    assert wire.buffered == 0


def test_a_silent_connection_that_times_out_is_closed() -> None:
    assert Wire(WireLimits()).timed_out() == [Close()]
