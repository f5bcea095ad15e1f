"""Which requests become calls: path, method, Host, Origin, media type.

Checked in this order, the first that fails is the answer:

    /livez /readyz        GET or HEAD, else 405; no check of Host (probes send what they like)
    Host                  421 unless allowed (DNS rebinding, see WireLimits)
    Origin                403 unless allowed, or our own
    path                  404 unless one of `rpc_paths`; a query is no part of it
    OPTIONS               from an allowed Origin: the answer to a CORS preflight
    method                405 unless POST
    Expect                417 unless 100-continue
    body                  411 where neither length nor chunks are announced
    Content-Encoding      415
    Content-Type          415 unless JSON.  Without Origin, none and the form type of a bare
                          `curl -d` will do; a web page sends those without a preflight
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .events import NO_META, HttpMeta
from .hosts import AllowedHosts
from .http_head import (
    AUTHORIZATION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    CONTEXT,
    EXPECT,
    FORWARDED,
    HOST,
    ORIGIN,
    PREFLIGHT_METHOD,
    TIMEOUT_MS,
    TRACEPARENT,
    TRANSFER_ENCODING,
    USER,
    RequestHead,
    Route,
    parse_head,
)
from .http_reply import JSON, Reply, malformed, too_large
from .limits import WireLimits

_HEALTH: Final[dict[bytes, Route]] = {b"/livez": "livez", b"/readyz": "readyz"}
_JSON_TYPES: Final = (JSON, b"application/json-rpc", b"application/jsonrequest")
_FORM_TYPE: Final = b"application/x-www-form-urlencoded"
_CHARSETS: Final = (b"", b"charset=utf-8", b'charset="utf-8"', b"charset=utf8")
_WHO: Final = frozenset({USER, AUTHORIZATION, FORWARDED})
_META: Final = frozenset({TIMEOUT_MS, CONTEXT, TRACEPARENT}) | _WHO
_MAX_REMEMBERED: Final = 256
_MAX_REMEMBERED_BYTES: Final = 1024
_PREFLIGHT: Final = (
    b"Access-Control-Allow-Methods: POST\r\n"
    b"Access-Control-Allow-Headers: Authorization, Content-Type, Traceparent, X-Faircall-Context,"
    b" X-Faircall-User, X-Request-Timeout-Ms\r\n"
    b"Access-Control-Max-Age: 600\r\n"
)


class HttpRules:
    """The rules under one set of limits, shared by its connections (`rules_of`).

    Clients repeat their heads to the byte, and all that is decided here follows from those bytes:
    the last few hundred decisions are remembered.
    """

    def __init__(self, limits: WireLimits) -> None:
        self._paths = frozenset(path.encode() for path in limits.rpc_paths)
        self._hosts = AllowedHosts(limits.allowed_hosts)
        self._origins = frozenset(origin.lower().encode() for origin in limits.allowed_origins)
        self._max_message_bytes = limits.max_message_bytes
        self._remembered = lru_cache(_MAX_REMEMBERED)(self._admit)

    def admit(self, raw: bytes) -> RequestHead:
        """The request whose header block is `raw`; raises `Reply` where the wire answers itself."""
        return self._remembered(raw) if len(raw) <= _MAX_REMEMBERED_BYTES else self._admit(raw)

    def _admit(self, raw: bytes) -> RequestHead:
        head = parse_head(raw)
        try:
            measure_body(head, self._max_message_bytes)
            head.origin_allowed = ORIGIN in head.headers and self._is_allowed_origin(head)
            head.route = self._route(head)
            head.meta = meta_of(head)
        except Reply as reply:
            reply.head = head
            raise
        return head

    def _route(self, head: RequestHead) -> Route:
        authority, path = split_target(head)
        if path in _HEALTH:
            _check_method(head, (b"GET", b"HEAD"))
            return _HEALTH[path]
        self._hosts.check(authority, head.http_1_0)
        if ORIGIN in head.headers and not head.origin_allowed:
            raise Reply(403, "this Origin may not call")
        if path not in self._paths:
            raise Reply(404, "calls go to / or /rpc")
        is_preflight = head.method == b"OPTIONS" and PREFLIGHT_METHOD in head.headers
        if is_preflight and head.origin_allowed:
            raise Reply(200, headers=_PREFLIGHT)
        _check_method(head, (b"POST",))
        _check_body(head)
        return "rpc"

    def _is_allowed_origin(self, head: RequestHead) -> bool:
        origin = head.headers.get(ORIGIN, b"").lower()
        if b"*" in self._origins or origin in self._origins:
            return True
        host = head.headers.get(HOST, b"").lower()
        return bool(host) and origin in (b"http://" + host, b"https://" + host)


@lru_cache(maxsize=32)
def rules_of(limits: WireLimits) -> HttpRules:
    return HttpRules(limits)


def meta_of(head: RequestHead) -> HttpMeta:
    """The headers that speak about the call; raises `Reply` where one is malformed."""
    headers = head.headers
    if headers.keys().isdisjoint(_META):
        return NO_META
    timeout_ms = headers.get(TIMEOUT_MS)
    if timeout_ms is not None and not (timeout_ms.isdigit() and len(timeout_ms) <= 12):
        raise Reply(400, "X-Request-Timeout-Ms must be a number of milliseconds")
    try:
        return HttpMeta(
            user=_text(headers.get(USER)),
            timeout_ms=None if timeout_ms is None else int(timeout_ms),
            context=_text(headers.get(CONTEXT)),
            traceparent=_text(headers.get(TRACEPARENT)),
            authorization=_text(headers.get(AUTHORIZATION)),
            forwarded=headers[FORWARDED].decode("latin-1") if FORWARDED in headers else None,
            names_somebody=not headers.keys().isdisjoint(_WHO),
        )
    except UnicodeDecodeError:
        raise Reply(400, "header values must be UTF-8") from None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def split_target(head: RequestHead) -> tuple[bytes, bytes]:
    """Host and path; where the target is an absolute URL its own host counts (RFC 9112, 3.2.2)."""
    authority = head.headers.get(HOST, b"")
    target = head.target.partition(b"?")[0]
    if not target.startswith(b"/"):
        scheme, found, rest = target.partition(b"://")
        if found and scheme.lower() in (b"http", b"https"):
            authority, _, path = rest.partition(b"/")
            target = b"/" + path
    return authority, target


def measure_body(head: RequestHead, max_message_bytes: int) -> None:
    """What follows this head; raises `Reply` if that cannot be said for certain, or is too much."""
    coding = head.headers.get(TRANSFER_ENCODING)
    length = head.headers.get(CONTENT_LENGTH)
    if coding is not None:
        if head.http_1_0 or length is not None:
            raise malformed("Transfer-Encoding with HTTP/1.0 or Content-Length")
        if coding.lower() != b"chunked":
            raise Reply(501, "the only transfer coding is chunked", close=True)
        head.is_chunked = True
    elif length is not None:
        if not length.isdigit():
            raise malformed("malformed Content-Length")
        head.length = int(length)
        if head.length > max_message_bytes:
            raise too_large(max_message_bytes)


def _check_method(head: RequestHead, allowed: tuple[bytes, ...]) -> None:
    if head.method not in allowed:
        names = b", ".join(allowed)
        raise Reply(405, f"allowed: {names.decode()}", headers=b"Allow: %b\r\n" % names)


def _check_body(head: RequestHead) -> None:
    headers = head.headers
    if EXPECT in headers and headers[EXPECT].lower() != b"100-continue":
        raise Reply(417, "the only expectation is 100-continue")
    if CONTENT_LENGTH not in headers and TRANSFER_ENCODING not in headers:
        raise Reply(411, "a call needs a Content-Length or chunks")
    if headers.get(CONTENT_ENCODING, b"identity").lower() != b"identity":
        raise Reply(415, "compressed bodies are not accepted")
    if headers.get(CONTENT_TYPE) != JSON:
        _check_media_type(headers.get(CONTENT_TYPE, b""), ORIGIN in headers)


def _check_media_type(value: bytes, from_a_page: bool) -> None:
    media_type, _, parameter = (part.strip() for part in value.lower().partition(b";"))
    if media_type in _JSON_TYPES and parameter in _CHARSETS:
        return
    if media_type in (b"", _FORM_TYPE) and not from_a_page:
        return
    raise Reply(415, "the Content-Type of a call is application/json")
