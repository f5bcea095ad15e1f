"""However the bytes are cut into pieces, the events are the same, and nothing makes the wire raise.

The streams are some of our own and those of the conformance list; the random ones are made of the
words that the protocols know, with limits small enough to be met.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Event, Health, Message, Send
from faircall.server.wire.limits import WireLimits

Drain = Callable[[Wire], list[Event]]
LIST = Path(__file__).with_name("jsonrpc_conformance.json")
SMALL = WireLimits(max_message_bytes=120, max_header_bytes=300)
MAX_STREAM_BYTES = 700

WORDS = [
    b"POST / HTTP/1.1\r\n",
    b"GET /livez HTTP/1.0\r\n",
    b"HEAD /rpc HTTP/1.1\r\n",
    b"Host: localhost\r\n",
    b"Content-Type: application/json\r\n",
    b"Content-Length: 2\r\n",
    b"Content-Length: 130\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"X: y\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"{}",
    b"[1]\n",
    b"2\r\n{}\r\n",
    b"0\r\n\r\n",
    b"0\r\n",
    b"x" * 90,
    b"\x00",
    b" ",
]
POST = b"".join([WORDS[0], *WORDS[3:6]]) + b"\r\n{}"
STREAMS = st.lists(st.sampled_from(WORDS) | st.binary(max_size=20), max_size=24).map(b"".join)
STARTS = st.sampled_from([b"", b"{}\n", b"Content-Length: 2\r\n\r\n{}", POST])


OWN_STREAMS = {
    "http, bare newline in the second head": POST + b"xx\n\r\n\r\n",
    "http, bare newline after an empty line": POST + b"\r\n\nGET / HTTP/1.1\r\n\r\n",
    "http, bare newline and the end": POST + b"\r\n\nGET",
    "http, refused between two calls": POST + POST.replace(b" / ", b" /no ") + POST,
    "http, probe and rest": POST + b"GET /livez HTTP/1.0\r\n\r\n" + POST,
    "lsp, bare newline": b"Content-Length: 2\r\n\n\nContent-Length: 2\r\n\r\n{}",
    "lines, no end": b"\r\n {}\r\n\n[1]\r\n[2]",
}


def streams() -> Iterator[tuple[str, bytes]]:
    yield from OWN_STREAMS.items()
    for case in json.loads(LIST.read_text())["cases"]:
        stream = base64.b64decode(case.get("raw_b64", "")) or case.get("raw", "").encode()
        if 0 < len(stream) <= MAX_STREAM_BYTES:
            yield case["id"], stream


def events_of(pieces: list[bytes], drain: Drain, limits: WireLimits) -> list[Event]:
    """All events of a stream in these pieces, answers given at its end, checked on the way."""
    wire = Wire(limits)
    events: list[Event] = []
    for piece in pieces:
        wire.receive(piece)
        events += drain(wire)
        assert wire.buffered <= limits.max_message_bytes + limits.max_header_bytes + len(piece)
    wire.receive_eof()
    events += drain(wire)
    for event in events:
        if isinstance(event, Message):
            events.append(Send(wire.answer(event.exchange, b"answer")))
        elif isinstance(event, Health):
            events.append(Send(wire.health_answer(event.exchange, True, "well")))
    assert wire.wants_close
    assert wire.in_flight == wire.held == 0
    events += drain(wire)
    assert events.count(Close()) == 1
    return events


@pytest.mark.parametrize("stream", [pytest.param(stream, id=name) for name, stream in streams()])
def test_a_cut_at_any_byte_changes_nothing(drain: Drain, stream: bytes) -> None:
    whole = events_of([stream], drain, WireLimits())
    for cut in range(1, len(stream)):
        assert events_of([stream[:cut], stream[cut:]], drain, WireLimits()) == whole
    assert (
        events_of([stream[at : at + 1] for at in range(len(stream))], drain, WireLimits()) == whole
    )


@given(start=STARTS, rest=STREAMS, cuts=st.sets(st.integers(1, 600), max_size=12))
def test_whatever_comes_in_whatever_pieces_gives_the_same_events(
    drain: Drain, start: bytes, rest: bytes, cuts: set[int]
) -> None:
    stream = start + rest
    ends = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(ends)]
    assert events_of(pieces, drain, SMALL) == events_of([stream], drain, SMALL)
