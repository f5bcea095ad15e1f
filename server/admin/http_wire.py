"""HTTP/1.1 for operators, bytes in and requests out: one request at a time, answered in order.

    receive(bytes) ─► next_request() ─► HttpRequest ─► answer() ─► bytes
                            └── raises Reply ─► refuse() ─► bytes; the connection ends if it says so

The head is read by the same rules as that of a call (`wire.http_head`), so nothing is taken here
that two programs in a row may read differently. A body has at most MAX_BODY_BYTES.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..wire.heads import BareNewline, HeadFinder, HeadTooLong, take
from ..wire.http_body import Body, body_of
from ..wire.http_head import CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, RequestHead, parse_head
from ..wire.http_reply import TEXT, Exchange, Reply, malformed, render, too_large
from ..wire.http_rules import measure_body, split_target
from ..wire.limits import WireLimits

MAX_HEAD_BYTES: Final = 16 << 10
MAX_BODY_BYTES: Final = 64 << 10
ACCEPT: Final = b"accept"
CHALLENGE: Final = b"WWW-Authenticate: Bearer\r\n"

_ALSO: Final = frozenset({ACCEPT})
_LIMITS: Final = WireLimits(max_message_bytes=MAX_BODY_BYTES, max_header_bytes=MAX_HEAD_BYTES)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`authority` is what stands for the host, `path` the target without its query.

    `user` is whose token it has, "" without one: known once it was let in.
    """

    head: RequestHead
    authority: bytes
    path: str
    query: str
    body: bytes
    user: str = ""

    @property
    def method(self) -> str:
        return self.head.method.decode()

    def header(self, name: bytes) -> str:
        """Its value, "" if it is not there; `name` in lower case."""
        return self.head.headers.get(name, b"").decode("latin-1")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`headers` are whole lines. `policy` is the Content-Security-Policy: nothing may be loaded."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT.decode()
    headers: bytes = b""
    policy: str = field(default="default-src 'none'; base-uri 'none'; form-action 'none'")


class HttpWire:
    """One connection. `closing`: what was answered last was its last."""

    def __init__(self) -> None:
        self.closing = False
        self._buffer = bytearray()
        self._finder = HeadFinder(MAX_HEAD_BYTES)
        self._head: RequestHead | None = None
        self._body: Body | None = None

    @property
    def mid_request(self) -> bool:
        """Whether a part of a request has come, and the rest is waited for."""
        return self._head is not None or bool(self._buffer)

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next_request(self) -> HttpRequest | None:
        """None = more bytes are needed; raises `Reply` for what is no request."""
        if self._head is None:
            self._head = self._take_head()
        if self._head is None:
            return None
        if self._body is None:
            self._body = self._begin_body(self._head)
        body = self._body.read(self._buffer)
        if body is None:
            return None
        head, self._head, self._body = self._head, None, None
        authority, target = split_target(head)
        query = head.target.partition(b"?")[2]
        return HttpRequest(head, authority, target.decode("latin-1"), query.decode("latin-1"), body)

    def answer(self, request: HttpRequest | None, answer: HttpAnswer) -> bytes:
        """The answer in bytes; `request` is None where none could be read."""
        head = request.head if request else None
        self.closing = self.closing or head is None or not head.keep_alive
        lines = _fixed(answer)
        if self.closing:
            lines += b"Connection: close\r\n"
        elif head is not None and head.http_1_0:
            lines += b"Connection: keep-alive\r\n"
        exchange = Exchange(0, lines, bodiless=head is not None and head.method == b"HEAD")
        kind = answer.content_type.encode()
        return render(exchange, answer.status, kind, answer.body, answer.headers)

    def refuse(self, request: HttpRequest | None, reply: Reply) -> bytes:
        """What `reply` says. One that was raised by `next_request` is the last word."""
        self.closing = self.closing or reply.close
        headers = reply.headers + (CHALLENGE if reply.status == 401 else b"")
        body = reply.text.encode() + b"\n" if reply.text else b""
        return self.answer(request, HttpAnswer(reply.status, body, headers=headers))

    def _take_head(self) -> RequestHead | None:
        while self._buffer.startswith(b"\r\n"):
            del self._buffer[:2]
        if bytes(self._buffer[:2]) in (b"", b"\r"):
            return None
        try:
            end = self._finder.find(self._buffer)
        except BareNewline:
            raise malformed("header lines end with CRLF") from None
        except HeadTooLong:
            raise Reply(431, f"a head may have {MAX_HEAD_BYTES} bytes", close=True) from None
        return parse_head(take(self._buffer, end), _ALSO) if end else None

    def _begin_body(self, head: RequestHead) -> Body:
        if EXPECT in head.headers:
            raise Reply(417, "nothing is to be expected here", close=True)
        if CONTENT_LENGTH in head.headers or TRANSFER_ENCODING in head.headers:
            measure_body(head, MAX_BODY_BYTES)
        if head.length > MAX_BODY_BYTES:
            raise too_large(MAX_BODY_BYTES)
        return body_of(head, _LIMITS)


def _fixed(answer: HttpAnswer) -> bytes:
    """The lines that every answer has: no page of anybody else's may use it, no cache keeps it."""
    return (
        f"Content-Security-Policy: {answer.policy}; frame-ancestors 'none'\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "X-Frame-Options: DENY\r\n"
        "Referrer-Policy: no-referrer\r\n"
        "Cross-Origin-Resource-Policy: same-origin\r\n"
        "Cache-Control: no-store\r\n"
    ).encode()
