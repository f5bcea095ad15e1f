"""LSP's base protocol: `Content-Length: N`, a blank line, N bytes of JSON.

    Content-Length: 55                                             every line ends with CRLF
    Content-Type: application/vscode-jsonrpc; charset=utf-8        optional, before or after

    {"jsonrpc":"2.0",...}

Names are compared without case and other well-formed headers ignored.  The length must be decimal
digits and stand there once: where it cannot be trusted the stream is lost, so the error (id null)
is followed by the end of the connection.  Bad JSON inside an intact frame is not lost and is no
business of this module.  Answers have the one header that every client can read.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from .events import Event, Message, Send
from .faults import parse_fault, too_large_fault
from .framing import Framing, FramingName
from .heads import BareNewline, HeadFinder, HeadTooLong, reject_bare_newlines, take
from .limits import WireLimits

_PLAIN: Final = re.compile(rb"Content-Length: ([0-9]{1,19})\r\n\r\n")
_HEADER: Final = re.compile(rb"([A-Za-z0-9-]+):[ \t]*([\x20-\x7e\t]*?)[ \t]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,19}")
_CHARSET: Final = re.compile(rb";\s*charset\s*=\s*\"?([^\s;\"]*)", re.IGNORECASE)
_UTF8: Final = (b"utf-8", b"utf8")


class BadFrame(Exception):
    """The stream cannot be followed any further; `answer` is the JSON that says why."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(answer)
        self.answer = answer


class ContentLengthFraming(Framing):
    __slots__ = ("_buffer", "_finder", "_length", "_max_bytes")

    name: ClassVar[FramingName] = "lsp"

    def __init__(self, limits: WireLimits) -> None:
        super().__init__()
        self._max_bytes = limits.max_message_bytes
        self._finder = HeadFinder(limits.max_header_bytes)
        self._buffer = bytearray()
        self._length: int | None = None  # of the frame whose header has been read

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    def receive(self, data: bytes) -> None:
        if not self.closing:
            self._buffer += data

    def next_event(self) -> Event | None:
        if self.closing:
            return self.close_event()
        try:
            body = self._next_body()
        except BadFrame as bad:
            self.stop()
            return Send(frame(bad.answer))
        if body is None:
            return self._at_the_end() if self.eof else None
        self.in_flight += 1
        self.exchanges += 1
        return Message(self.exchanges, body)

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> bytes:
        self.in_flight -= 1
        return b"" if body is None else frame(body)

    def _next_body(self) -> bytes | None:
        if self._length is None:
            self._length = self._read_header()
        if self._length is None or len(self._buffer) < self._length:
            self.mid_message = self._length is not None or bool(self._buffer)
            return None
        body = take(self._buffer, self._length)
        self._length = None
        self.mid_message = False
        return body

    def _read_header(self) -> int | None:
        try:
            end = self._finder.find(self._buffer)
            if not end:
                return None
            length = _parse(take(self._buffer, end))
        except BareNewline:
            raise BadFrame(parse_fault("header lines end with CRLF")) from None
        except HeadTooLong:
            raise BadFrame(parse_fault("header too long")) from None
        if length > self._max_bytes:
            raise BadFrame(too_large_fault(self._max_bytes))
        return length

    def _at_the_end(self) -> Event | None:
        unfinished = self.mid_message
        self.stop()
        if unfinished:
            return Send(frame(parse_fault("the stream ended inside a frame")))
        return self.close_event()

    def _forget_input(self) -> None:
        self._buffer.clear()


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _parse(head: bytes) -> int:
    """The length that a header block announces."""
    plain = _PLAIN.fullmatch(head)
    if plain:
        return int(plain[1])
    reject_bare_newlines(head)
    length: int | None = None
    for line in head.split(b"\r\n")[:-2]:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BadFrame(parse_fault("malformed header line"))
        name, value = header[1].lower(), header[2]
        if name == b"content-length":
            if length is not None or not _LENGTH.fullmatch(value):
                raise BadFrame(parse_fault("Content-Length must be one decimal number"))
            length = int(value)
        elif name == b"content-type":
            _check_charset(value)
    if length is None:
        raise BadFrame(parse_fault("Content-Length is missing"))
    return length


def _check_charset(content_type: bytes) -> None:
    charset = _CHARSET.search(content_type)
    if charset and charset[1].lower() not in _UTF8:
        raise BadFrame(parse_fault("only UTF-8 is understood"))
