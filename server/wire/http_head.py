"""The head of an HTTP request: httptools reads it, and some checks of our own make it unambiguous.

httptools (llhttp) is strict about header names and values, Content-Length and its meeting with
Transfer-Encoding.  It lets pass what one of two programs in a row may read differently, so refused
here: more than one space in the request line, a Transfer-Encoding other than exactly `chunked`,
one in HTTP/1.0, bare CR or LF, folded lines (older llhttp), and any header we act on that stands
there twice.

A parser serves one head and is dropped: no state goes from one request to the next.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from .events import NO_META, HttpMeta
from .heads import BareNewline, reject_bare_newlines
from .http_reply import Reply, malformed

_REQUEST_LINE: Final = re.compile(rb"([!-~]+) ([!-~]+) HTTP/([0-9])\.([0-9])\r\n")
_VERSIONS: Final = ((b"1", b"1"), (b"1", b"0"))

HOST: Final = b"host"
ORIGIN: Final = b"origin"
CONNECTION: Final = b"connection"
CONTENT_TYPE: Final = b"content-type"
CONTENT_LENGTH: Final = b"content-length"
CONTENT_ENCODING: Final = b"content-encoding"
TRANSFER_ENCODING: Final = b"transfer-encoding"
EXPECT: Final = b"expect"
USER: Final = b"x-faircall-user"
CONTEXT: Final = b"x-faircall-context"
TIMEOUT_MS: Final = b"x-request-timeout-ms"
TRACEPARENT: Final = b"traceparent"
AUTHORIZATION: Final = b"authorization"
FORWARDED: Final = b"x-forwarded-for"
PREFLIGHT_METHOD: Final = b"access-control-request-method"

_USED: Final = frozenset(
    {
        HOST,
        ORIGIN,
        CONNECTION,
        CONTENT_TYPE,
        CONTENT_LENGTH,
        CONTENT_ENCODING,
        TRANSFER_ENCODING,
        EXPECT,
        USER,
        CONTEXT,
        TIMEOUT_MS,
        TRACEPARENT,
        AUTHORIZATION,
        FORWARDED,
        PREFLIGHT_METHOD,
    }
)
_LISTS: Final = (CONNECTION, FORWARDED)  # which may stand there in several pieces

Route = Literal["rpc", "livez", "readyz"]


class RequestHead:
    """One request without its body; `headers`: those that faircall acts on, in lower case.

    `http_rules` fills in where it leads, and nothing changes it after that.
    """

    __slots__ = (
        "headers",
        "http_1_0",
        "is_chunked",
        "keep_alive",
        "length",
        "meta",
        "method",
        "origin_allowed",
        "route",
        "target",
    )

    def __init__(
        self, method: bytes, target: bytes, http_1_0: bool, headers: dict[bytes, bytes]
    ) -> None:
        self.method = method
        self.target = target
        self.http_1_0 = http_1_0
        self.headers = headers
        self.keep_alive = _keep_alive(headers.get(CONNECTION), http_1_0)
        self.length = 0  # of the body; 0 where it is chunked
        self.is_chunked = False
        self.route: Route = "rpc"
        self.meta: HttpMeta = NO_META
        self.origin_allowed = False

    @property
    def expects_continue(self) -> bool:
        return EXPECT in self.headers and not self.http_1_0

    @property
    def has_body(self) -> bool:
        return self.is_chunked or self.length > 0


class _Collector:
    """httptools' callback: keeps the headers in use."""

    __slots__ = ("_also", "headers", "repeated")

    def __init__(self, also: frozenset[bytes]) -> None:
        self._also = also
        self.headers: dict[bytes, bytes] = {}
        self.repeated: bytes | None = None

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name not in _USED and name not in self._also:
            return
        value = value.strip(b" \t")
        if name in self.headers:
            if name in _LISTS or name in self._also:
                value = self.headers[name] + b"," + value
            else:
                self.repeated = name
        self.headers[name] = value


def parse_head(raw: bytes, also: frozenset[bytes] = frozenset()) -> RequestHead:
    """The request whose header block, blank line included, is `raw`; raises `Reply`.

    `also`: further headers to be kept; what stands there in several pieces is joined by commas.
    """
    try:
        reject_bare_newlines(raw)
    except BareNewline:
        raise malformed("header lines end with CRLF") from None
    line = _REQUEST_LINE.match(raw)
    if line is None:
        raise malformed("malformed request line")
    if (line[3], line[4]) not in _VERSIONS:
        raise Reply(505, "only HTTP/1.1 and HTTP/1.0 are spoken here", close=True)
    if b"\n " in raw or b"\n\t" in raw:
        raise malformed("folded header line")
    head = RequestHead(line[1], line[2], line[4] == b"0", _collect(raw, also))
    if HOST not in head.headers and not head.http_1_0:
        raise malformed("Host is missing")
    return head


def _collect(raw: bytes, also: frozenset[bytes]) -> dict[bytes, bytes]:
    collector = _Collector(also)
    try:
        HttpRequestParser(collector).feed_data(raw)
    except HttpParserUpgrade:
        pass  # an offer, which a server may pass over
    except HttpParserError as error:
        raise malformed(f"malformed request: {error}") from None
    if collector.repeated is not None:
        raise malformed(f"{collector.repeated.decode()} stands there twice")
    return collector.headers


def _keep_alive(connection: bytes | None, http_1_0: bool) -> bool:
    if connection is None:
        return not http_1_0
    options = {option.strip() for option in connection.lower().split(b",")}
    if b"close" in options:
        return False
    return not http_1_0 or b"keep-alive" in options
