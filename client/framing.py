"""Where one message ends and the next begins: bytes in, payloads out, no socket.

Two framings: a message per line, answered in any order; and HTTP/1.1 (RFC 9112), whose answers
come in the order of the requests, each with a Content-Length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

MAX_ANSWER_BYTES = 1 << 30
MAX_HEAD_BYTES = 1 << 16
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) (\d{3}(?: .*)?)")


class FramingError(Exception):
    """The bytes are not in this framing: nothing that follows can be trusted."""


@dataclass(frozen=True, slots=True)
class Payload:
    """One message. `status` is that of HTTP ("200 OK"); `last`: the server closes after it."""

    body: bytearray
    status: str = ""
    last: bool = False


class Framing(Protocol):
    """One connection's: feed `receive`, take payloads until there is None."""

    in_order: bool
    """Whether there is one payload (it may be empty) for each message sent, in their order."""

    def frame(self, message: bytes) -> bytes:
        """The bytes that carry `message`."""

    def receive(self, data: bytes) -> None:
        """Bytes of any number, as the socket gave them."""

    def next_payload(self) -> Payload | None:
        """The next whole payload; FramingError if none can come any more."""

    @property
    def mid_payload(self) -> bool:
        """Whether a payload has begun that is not whole."""


class LineFraming:
    """Each message on a line of its own; empty lines mean nothing."""

    in_order = False

    def __init__(self, max_answer_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._buffer = bytearray()
        self._searched = 0

    def frame(self, message: bytes) -> bytes:
        return message + b"\n"

    def receive(self, data: bytes) -> None:
        self._buffer += data

    @property
    def mid_payload(self) -> bool:
        return bool(self._buffer)

    def next_payload(self) -> Payload | None:
        while self._buffer:
            if self._buffer[0] not in b"{[ \t\r\n":
                raise FramingError(f"not JSON-RPC: {excerpt(self._buffer)}")
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._buffer)
                self._check_size()
                return None
            line = self._take_line(end)
            if not line.isspace():
                return Payload(line)
        return None

    def _take_line(self, end: int) -> bytearray:
        line = self._buffer[: end + 1]
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _check_size(self) -> None:
        if len(self._buffer) > self._max_answer_bytes:
            raise FramingError(f"an answer of more than {self._max_answer_bytes} bytes")


class HttpFraming:
    """A POST for each message. A status other than 200 is a payload like any other."""

    in_order = True

    def __init__(
        self,
        host: str,
        target: str,
        headers: Mapping[str, str],
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        fields = {"Host": host, "Content-Type": "application/json", **headers}
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
        self._head = "\r\n".join([*lines, "Content-Length: "]).encode()
        self._max_answer_bytes = max_answer_bytes
        self._buffer = bytearray()
        self._awaited: _Head | None = None

    def frame(self, message: bytes) -> bytes:
        return b"%b%d\r\n\r\n%b" % (self._head, len(message), message)

    def receive(self, data: bytes) -> None:
        self._buffer += data

    @property
    def mid_payload(self) -> bool:
        return bool(self._buffer) or self._awaited is not None

    def next_payload(self) -> Payload | None:
        if self._awaited is None:
            self._awaited = self._next_head()
        head = self._awaited
        if head is None or len(self._buffer) < head.length:
            return None
        body = self._buffer[: head.length]
        del self._buffer[: head.length]
        self._awaited = None
        return Payload(body, head.status, head.last)

    def _next_head(self) -> _Head | None:
        """The head of the next final answer: interim ones (1xx) are passed over."""
        while (end := self._end_of_head()) >= 0:
            head = _parse_head(self._buffer[:end].decode("latin-1"))
            del self._buffer[: end + 4]
            if head.length > self._max_answer_bytes:
                raise FramingError(f"an answer of {head.length} bytes")
            if not head.status.startswith("1"):
                return head
        return None

    def _end_of_head(self) -> int:
        if not self._buffer.startswith(b"HTTP/1."[: len(self._buffer)]):
            raise FramingError(f"not HTTP/1.1: {excerpt(self._buffer)}")
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)
        if end < 0 and len(self._buffer) >= MAX_HEAD_BYTES:
            raise FramingError(f"HTTP headers of more than {MAX_HEAD_BYTES} bytes")
        return end


@dataclass(frozen=True, slots=True)
class _Head:
    status: str
    length: int
    last: bool


def _parse_head(text: str) -> _Head:
    first, *lines = text.split("\r\n")
    match = _STATUS_LINE.fullmatch(first)
    if match is None:
        raise FramingError(f"not an HTTP status line: {first[:80]!r}")
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    connection = fields.get("connection", "keep-alive" if match[1] == "1" else "close")
    last = connection.lower() == "close"
    return _Head(match[2].rstrip(), _content_length(fields, match[2]), last)


def _content_length(fields: Mapping[str, str], status: str) -> int:
    length = fields.get("content-length")
    if length is None and (status.startswith("1") or status[:3] in ("204", "304")):
        return 0
    if length is None or "transfer-encoding" in fields:
        raise FramingError(f"an answer (HTTP {status}) without a Content-Length")
    if not (length.isascii() and length.isdigit()):
        raise FramingError(f"a Content-Length of {length[:80]!r}")
    return int(length)


def excerpt(data: bytes | bytearray) -> str:
    """The beginning of `data`, as a message shows it."""
    return repr(bytes(data[:80])) + (f"... ({len(data)} bytes)" if len(data) > 80 else "")
