from __future__ import annotations

import pytest

from faircall.client.framing import (
    MAX_HEAD_BYTES,
    Framing,
    FramingError,
    HttpFraming,
    LineFraming,
    Payload,
)

OK = b"HTTP/1.1 200 OK\r\n"


def http(max_answer_bytes: int = 1000) -> HttpFraming:
    return HttpFraming("h:1", "/rpc", {}, max_answer_bytes)


def payloads(framing: Framing, *parts: bytes) -> list[Payload]:
    taken = []
    for part in parts:
        framing.receive(part)
        while (payload := framing.next_payload()) is not None:
            taken.append(payload)
    return taken


def test_lines_are_cut_at_every_byte() -> None:
    wire = b'{"id":1}\n\r\n[{"id":2},\t{}]\r\n\n{"id":"\xc3\xa4"}\n'
    whole = [b'{"id":1}\n', b'[{"id":2},\t{}]\r\n', b'{"id":"\xc3\xa4"}\n']
    for cut in range(len(wire) + 1):
        framing = LineFraming()
        assert [p.body for p in payloads(framing, wire[:cut], wire[cut:])] == whole
        assert not framing.mid_payload


def test_http_answers_are_cut_at_every_byte() -> None:
    wire = (
        b"HTTP/1.1 100 Continue\r\n\r\n"
        + OK
        + b"content-length: 2\r\nDate: x:y\r\n\r\n{}"
        + b"HTTP/1.1 204 No Content\r\n\r\n"
        + OK
        + b"Content-Length: 0\r\n\r\n"
        + b"HTTP/1.1 503 \r\nConnection: Close\r\nContent-Length: 4\r\n\r\n\r\n\r\n"
    )
    whole = [
        Payload(bytearray(b"{}"), "200 OK"),
        Payload(bytearray(), "204 No Content"),
        Payload(bytearray(), "200 OK"),
        Payload(bytearray(b"\r\n\r\n"), "503", last=True),
    ]
    for cut in range(len(wire) + 1):
        framing = http()
        assert payloads(framing, wire[:cut], wire[cut:]) == whole
        assert not framing.mid_payload


def test_http_1_0_closes_unless_it_says_otherwise() -> None:
    wire = b"HTTP/1.0 200 OK\r\n%bContent-Length: 0\r\n\r\n"
    assert payloads(http(), wire % b"")[0].last
    assert not payloads(http(), wire % b"Connection: keep-alive\r\n")[0].last


@pytest.mark.parametrize(
    "wire", [b'{"id"', b"[", OK, OK + b"Content-Length: 9\r\n\r\n", OK + b"Content-Length: 1"]
)
def test_a_payload_that_has_begun_is_known(wire: bytes) -> None:
    framing = http() if wire.startswith(b"HTTP") else LineFraming()
    assert not framing.mid_payload
    assert payloads(framing, wire) == []
    assert framing.mid_payload


@pytest.mark.parametrize(
    ("framing", "wire", "why"),
    [
        (LineFraming(), b"SSH-2.0-OpenSSH_9.9", "not JSON-RPC: b'SSH-2.0"),
        (LineFraming(), b'{}\n"text"\n', "not JSON-RPC: b'\"text"),
        (LineFraming(4), b"[1,2,", "an answer of more than 4 bytes"),
        (http(), b"220 mail.example\r\n", "not HTTP/1.1: b'220 mail"),
        (http(), b"{", "not HTTP/1.1: b'{'"),
        (http(), b"HTTP/1.1 OK\r\n\r\n", "not an HTTP status line: 'HTTP/1.1 OK'"),
        (http(), b"HTTP/1.1 2000 OK\r\n\r\n", "not an HTTP status line"),
        (http(), OK + b"\r\n", r"\(HTTP 200 OK\) without a Content-Length"),
        (http(), OK + b"Transfer-Encoding: chunked\r\n\r\n", "without a Content-Length"),
        (http(), OK + b"Content-Length: -1\r\n\r\n", "a Content-Length of '-1'"),
        (http(), OK + b"Content-Length: 1e3\r\n\r\n", "a Content-Length of '1e3'"),
        (http(), OK + b"Content-Length: 1001\r\n\r\n", "an answer of 1001 bytes"),
        (http(), OK + b"x" * MAX_HEAD_BYTES, "headers of more than 65536 bytes"),
    ],
)
def test_what_is_not_in_the_framing_is_refused_at_once(
    framing: Framing, wire: bytes, why: str
) -> None:
    with pytest.raises(FramingError, match=why):
        payloads(framing, wire)


def test_a_message_goes_out_in_one_line_or_one_post() -> None:
    assert LineFraming().frame(b"{}") == b"{}\n"
    assert HttpFraming("h:1", "/rpc", {"X-A": "b"}).frame(b"{}") == (
        b"POST /rpc HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\nX-A: b\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )


def test_a_long_line_is_searched_once_however_it_comes() -> None:
    line = b"[" + b" " * 5000 + b"]\n"
    framing = LineFraming()
    taken = payloads(framing, *(line[i : i + 7] for i in range(0, len(line), 7)))
    assert [payload.body for payload in taken] == [line]
