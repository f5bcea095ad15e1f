"""The body of an HTTP request: as long as announced, or in chunks (RFC 9112, section 7.1).

Chunk sizes are hexadecimal digits at once followed by CRLF or an extension; int() would take more.
Extensions and trailers are read and dropped.
"""

from __future__ import annotations

import re
from typing import Final

from .heads import take
from .http_head import RequestHead
from .http_reply import Reply, malformed, too_large
from .limits import WireLimits

_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")
_MAX_LINE_BYTES: Final = 1024


class SizedBody:
    """A body of `length` bytes.  `discard`: it is passed over instead of being gathered."""

    __slots__ = ("_missing", "discard", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self.discard = False
        self._missing = length

    @property
    def gathered(self) -> int:
        """Bytes of the body kept here instead of in the buffer."""
        return 0

    def read(self, buffer: bytearray) -> bytes | None:
        """The whole body (b"" where it was discarded), taken from `buffer`; None = more needed."""
        if self.discard:
            passed = min(self._missing, len(buffer))
            del buffer[:passed]
            self._missing -= passed
            return None if self._missing else b""
        return take(buffer, self.length) if len(buffer) >= self.length else None


class ChunkedBody:
    """A body of chunks, decoded as they come.

    size line ──► data ──► CRLF ──► size line ... size 0 ──► trailer lines ──► empty line
    """

    __slots__ = ("_body", "_length", "_limits", "_missing", "_state", "_trailer_bytes", "discard")

    def __init__(self, limits: WireLimits) -> None:
        self.discard = False
        self._limits = limits
        self._body = bytearray()
        self._length = 0
        self._missing = 0
        self._trailer_bytes = 0
        self._state = self._SIZE

    _SIZE, _DATA, _DATA_END, _TRAILER, _DONE = range(5)

    @property
    def gathered(self) -> int:
        return len(self._body)

    def read(self, buffer: bytearray) -> bytes | None:
        """As `SizedBody.read`; raises `Reply` where the coding is wrong or the body too large."""
        while self._state != self._DONE:
            if not self._step(buffer):
                return None
        return bytes(self._body)

    def _step(self, buffer: bytearray) -> bool:
        """One step of the picture; False = more bytes needed."""
        if self._state == self._DATA:
            return self._take_data(buffer)
        line = _take_line(buffer)
        if line is None:
            return False
        if self._state == self._SIZE:
            self._begin_chunk(line)
        elif self._state == self._TRAILER:
            self._pass_trailer(line)
        elif line:
            raise malformed("chunk longer than its size")
        else:
            self._state = self._SIZE
        return True

    def _begin_chunk(self, line: bytes) -> None:
        size = _CHUNK_LINE.fullmatch(line)
        if size is None:
            raise malformed("malformed chunk size")
        self._missing = int(size[1], 16)
        self._length += self._missing
        if self._length > self._limits.max_message_bytes:
            raise too_large(self._limits.max_message_bytes)
        self._state = self._DATA if self._missing else self._TRAILER

    def _take_data(self, buffer: bytearray) -> bool:
        count = min(self._missing, len(buffer))
        if not self.discard:
            with memoryview(buffer) as view:
                self._body += view[:count]
        del buffer[:count]
        self._missing -= count
        if self._missing:
            return False
        self._state = self._DATA_END
        return True

    def _pass_trailer(self, line: bytes) -> None:
        if not line:
            self._state = self._DONE
            return
        self._trailer_bytes += len(line)
        if self._trailer_bytes > self._limits.max_header_bytes:
            raise Reply(431, "trailers too long", close=True)
        if not _TRAILER.fullmatch(line):
            raise malformed("malformed trailer")


Body = SizedBody | ChunkedBody


def body_of(head: RequestHead, limits: WireLimits) -> Body:
    return ChunkedBody(limits) if head.is_chunked else SizedBody(head.length)


def _take_line(buffer: bytearray) -> bytes | None:
    """The first line without its CRLF, removed; None = not complete."""
    end = buffer.find(b"\n", 0, _MAX_LINE_BYTES)
    if end < 0:
        if len(buffer) >= _MAX_LINE_BYTES:
            raise malformed("chunk or trailer line too long")
        return None
    line = take(buffer, end + 1)
    if line[-2:] != b"\r\n":
        raise malformed("chunk and trailer lines end with CRLF")
    return line[:-2]
