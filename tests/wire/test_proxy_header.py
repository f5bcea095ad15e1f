"""The PROXY protocol: who is introduced, byte by byte, and what is no introduction."""

from __future__ import annotations

import socket

import pytest

from faircall.server.wire.connection import Wire
from faircall.server.wire.events import Close, Event, Fault, Message
from faircall.server.wire.limits import WireLimits
from faircall.server.wire.proxy_header import MAX_V1_BYTES, MAX_V2_BYTES, SIGNATURE

CALL = b'{"jsonrpc":"2.0","method":"m","id":1}\n'
V4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("192.0.2.1") + b"\xdc\x04\x01\xbb"
V6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7") + bytes(15) + b"\x01" + b"\xdc\x04\x01\xbb"
MAPPED = bytes(10) + b"\xff\xff" + socket.inet_aton("192.0.2.7") + V6[16:]


def v2(command: int, family: int, rest: bytes, length: int | None = None) -> bytes:
    size = len(rest) if length is None else length
    return SIGNATURE + bytes([command, family]) + size.to_bytes(2, "big") + rest


GOOD = [
    (v2(0x21, 0x11, V4), "192.0.2.7"),
    (v2(0x21, 0x21, V6), "2001:db8::7"),
    (v2(0x21, 0x21, MAPPED), "192.0.2.7"),
    (v2(0x21, 0x11, V4 + b"\x03\x00\x04abcd" + b"\x04\x00\x00"), "192.0.2.7"),  # TLVs
    (v2(0x20, 0x00, b""), ""),
    (v2(0x20, 0x11, V4), ""),  # LOCAL: the addresses are passed over
    (v2(0x20, 0x11, b"xy"), ""),
    (v2(0x21, 0x00, b"anything"), ""),
    (v2(0x21, 0x12, V4), ""),  # a datagram
    (v2(0x21, 0x31, bytes(216)), ""),
    (b"PROXY TCP4 192.0.2.7 192.0.2.1 56324 443\r\n", "192.0.2.7"),
    (b"PROXY TCP6 2001:DB8::7 ::1 0 65535\r\n", "2001:db8::7"),
    (b"PROXY UNKNOWN\r\n", ""),
    (b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", ""),
]
BAD = [
    b"{",
    b"G",
    b"PO",
    b"PRI",
    b"\n",
    b"\r\n\r\nX",
    SIGNATURE[:4] + b"\x01",
    SIGNATURE + b"\x11",  # version 1
    SIGNATURE + b"\x22",  # an unassigned command
    SIGNATURE + b"\x21\x41",  # families and transports that do not exist
    SIGNATURE + b"\x21\x13",
    v2(0x21, 0x11, b"", 11),
    v2(0x21, 0x21, b"", 35),
    v2(0x21, 0x31, b"", 215),
    v2(0x21, 0x11, b"", MAX_V2_BYTES + 1),
    b"PROXX",
    b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\n",
    b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\rX",
    b"PROXY TCP4  192.0.2.7 192.0.2.1 1 2\r\n",
    b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2 \r\n",
    b"PROXY TCP4 192.0.2.07 192.0.2.1 1 2\r\n",
    b"PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
    b"PROXY TCP6 192.0.2.7 192.0.2.1 1 2\r\n",
    b"PROXY TCP4 192.0.2.7 192.0.2.1 01 2\r\n",
    b"PROXY TCP4 192.0.2.7 192.0.2.1 1 65536\r\n",
    b"PROXY TCP4 192.0.2.7 192.0.2.1 -1 2\r\n",
    b"PROXY TCP4 192.0.2.7 192.0.2.1\r\n",
    b"PROXY UDP4 192.0.2.7 192.0.2.1 1 2\r\n",
    b"PROXY \r\n",
    b"PROXY " + b"x" * (MAX_V1_BYTES - 6),
]


def introduced() -> Wire:
    return Wire(WireLimits(), introduced=True)


def bytewise(wire: Wire, data: bytes) -> list[Event]:
    """What comes of `data`, one byte at a time."""
    events = []
    for at in range(len(data)):
        wire.receive(data[at : at + 1])
        while (event := wire.next_event()) is not None:
            events.append(event)
    return events


@pytest.mark.parametrize(("header", "source"), GOOD)
def test_a_header_says_who_it_is_and_the_rest_is_as_ever(header: bytes, source: str) -> None:
    for message in (CALL, CALL + CALL):
        wire = introduced()
        wire.receive(header + message)
        assert wire.source == source
        assert wire.next_event() == Message(1, CALL[:-1])
        assert wire.framing == "lines"


@pytest.mark.parametrize(("header", "source"), GOOD)
def test_it_may_arrive_byte_by_byte(header: bytes, source: str) -> None:
    wire = introduced()
    assert bytewise(wire, header[:-1]) == []
    assert wire.source is None
    assert wire.mid_message
    assert wire.buffered == len(header) - 1
    assert bytewise(wire, header[-1:]) == []
    assert wire.source == source
    assert not wire.mid_message
    assert bytewise(wire, CALL) == [Message(1, CALL[:-1])]


@pytest.mark.parametrize("data", BAD)
def test_what_is_no_header_ends_it_without_a_word(data: bytes) -> None:
    """At the last of these bytes, not before and not later."""
    wire = introduced()
    assert bytewise(wire, data[:-1]) == []
    fault, close = bytewise(wire, data[-1:] + CALL)
    assert isinstance(fault, Fault)
    assert "PROXY" in fault.detail
    assert close == Close()
    assert wire.source is None
    assert wire.wants_close


@pytest.mark.parametrize("header", [SIGNATURE, v2(0x21, 0x11, V4)[:-1], b"PROXY TCP4 192.0"])
def test_an_end_inside_a_header_is_one_too(header: bytes) -> None:
    wire = introduced()
    wire.receive(header)
    wire.receive_eof()
    assert wire.next_event() == Fault("the stream ended inside the PROXY header")
    assert wire.next_event() == Close()


def test_who_says_nothing_and_goes_is_nobody() -> None:
    wire = introduced()
    assert wire.next_event() is None
    wire.receive_eof()
    assert wire.next_event() == Close()
    assert introduced().timed_out() == [Close()]


def test_a_longest_line_and_longest_addresses_will_do() -> None:
    wire = introduced()
    wire.receive(b"PROXY UNKNOWN ".ljust(MAX_V1_BYTES - 2, b"f") + b"\r\n")
    assert wire.source == ""
    wire = introduced()
    wire.receive(v2(0x21, 0x11, V4.ljust(MAX_V2_BYTES, b"\0")))
    assert wire.source == "192.0.2.7"


def test_elsewhere_it_is_refused_as_ever() -> None:
    wire = Wire(WireLimits())
    wire.receive(GOOD[10][0])
    assert wire.source is None
    assert b"-32700" in getattr(wire.next_event(), "data", b"")
