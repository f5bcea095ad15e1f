"""HTTP/1.1 (and 1.0): POST carries calls, answers leave in the order of their requests.

A request is read as head, then body; whatever is wrong with it is a `Reply`, raised anywhere below
and answered in one place.  Where the bounds of the request are certain the connection goes on (its
body is passed over), otherwise it ends.  Notifications are answered 200 with an empty body.

Once a connection has spoken HTTP, nothing on it is ever taken for another framing.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from .events import Event, Health, Message, Send
from .framing import Framing, FramingName
from .heads import BareNewline, HeadFinder, HeadTooLong, take
from .http_body import Body, body_of
from .http_head import ORIGIN, RequestHead
from .http_reply import CONTINUE, JSON, TEXT, AnswerQueue, Exchange, Reply, malformed, render
from .http_rules import rules_of
from .limits import WireLimits

_CR: Final = 0x0D
_CHALLENGE: Final = b"WWW-Authenticate: Bearer\r\n"
_BLANK_LINES: Final = re.compile(rb"(?:\r\n)*")


class _Request:
    """The request being read; `refused`: it has its answer, the rest of its body is passed over."""

    __slots__ = ("body", "head", "refused")

    def __init__(self, head: RequestHead, body: Body) -> None:
        self.head = head
        self.body = body
        self.refused = False


class HttpFraming(Framing):
    __slots__ = (
        "_answers",
        "_buffer",
        "_continue_due",
        "_finder",
        "_limits",
        "_request",
        "_rules",
    )

    name: ClassVar[FramingName] = "http"

    def __init__(self, limits: WireLimits) -> None:
        super().__init__()
        self._limits = limits
        self._rules = rules_of(limits)
        self._finder = HeadFinder(limits.max_header_bytes)
        self._buffer = bytearray()
        self._request: _Request | None = None
        self._answers = AnswerQueue()
        self._continue_due = False  # a 100 that may not overtake the answers before it

    @property
    def buffered(self) -> int:
        return len(self._buffer) + (self._request.body.gathered if self._request else 0)

    @property
    def held(self) -> int:
        return self._answers.held_bytes

    def receive(self, data: bytes) -> None:
        if not self.closing:
            self._buffer += data
            self.more = True

    def next_event(self) -> Event | None:
        if self.closing:
            return self.close_event()
        try:
            event = self._advance()
        except Reply as reply:
            event = self._refuse(reply)
        if event is None and self.eof:
            return self._at_the_end()
        unfinished = self._is_unfinished()
        self.mid_message = event is None and unfinished
        self.more = unfinished or self.eof or self.closing
        return event

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> bytes:
        waiting = self._answers.find(exchange)
        headers = _CHALLENGE if status == 401 else b""
        return self._settle(waiting, render(waiting, status, JSON, body or b"", headers))

    def health_answer(self, exchange: int, ok: bool, text: str) -> bytes:
        waiting = self._answers.find(exchange)
        return self._settle(waiting, render(waiting, 200 if ok else 503, TEXT, _line(text)))

    def timed_out(self) -> list[Event]:
        if not self.mid_message:
            return super().timed_out()
        event = self._refuse(Reply(408, "the request took too long to arrive", close=True))
        return [*([event] if event else []), *super().timed_out()]

    def _advance(self) -> Event | None:
        """The next event, None = more bytes needed; refused requests are passed over."""
        while True:
            if self._request is None:
                event = self._begin()
                if event is not None:
                    return event
            request = self._request
            if request is None:
                return None
            body = request.body.read(self._buffer)
            if body is None:
                return None
            self._request = None
            if not request.refused:
                return self._complete(request.head, body)

    def _begin(self) -> Event | None:
        """Reads a head, if one is there, into `_request`; the event is a 100 Continue."""
        raw = self._take_head()
        if raw is None:
            return None
        try:
            head = self._rules.admit(raw)
        except Reply as reply:
            if reply.head is not None:
                self._request = _Request(reply.head, body_of(reply.head, self._limits))
            raise
        self._request = _Request(head, body_of(head, self._limits))
        self._request.body.discard = head.route != "rpc"
        if not head.expects_continue or not head.has_body:
            return None
        self._continue_due = bool(self.in_flight)
        return None if self._continue_due else Send(CONTINUE)

    def _take_head(self) -> bytes | None:
        buffer = self._buffer
        if buffer and buffer[0] == _CR:
            blank = _BLANK_LINES.match(buffer)
            del buffer[: blank.end() if blank else 0]
            if buffer == b"\r":  # half of one more
                return None
        try:
            end = self._finder.find(buffer)
        except BareNewline:
            raise malformed("header lines end with CRLF") from None
        except HeadTooLong:
            raise self._head_too_long() from None
        return take(buffer, end) if end else None

    def _head_too_long(self) -> Reply:
        limit = self._limits.max_header_bytes
        in_the_target = self._buffer.find(b"\r\n", 0, limit) < 0
        return Reply(414 if in_the_target else 431, f"at most {limit} bytes", close=True)

    def _complete(self, head: RequestHead, body: bytes) -> Event:
        self._continue_due = False
        exchange = self._open(head, close=not head.keep_alive)
        if not head.keep_alive:
            self.stop()
        if head.route == "rpc":
            return Message(exchange.number, body, head.meta)
        return Health(exchange.number, head.route)

    def _refuse(self, reply: Reply) -> Event | None:
        """Answers the request at hand; the event is empty while older answers are due."""
        request = self._request
        if request is not None and request.refused:  # it cannot be answered twice
            self.stop()
            return self.close_event()
        head = None if request is None else request.head
        close = reply.close or head is None or not head.keep_alive or head.expects_continue
        exchange = self._open(head, close)
        if close or request is None:
            self.stop()
        else:
            request.refused = request.body.discard = True
        body = _line(reply.text) if reply.text else b""
        answer = render(exchange, reply.status, TEXT, body, reply.headers)
        return Send(self._settle(exchange, answer))

    def _open(self, head: RequestHead | None, close: bool) -> Exchange:
        """A new exchange, last in the queue; head None = a request that could not be read."""
        self.exchanges += 1
        self.in_flight += 1
        bodiless = head is not None and head.method == b"HEAD"
        exchange = Exchange(self.exchanges, _answer_headers(head, close), bodiless)
        self._answers.open(exchange)
        return exchange

    def _settle(self, exchange: Exchange, answer: bytes) -> bytes:
        sent = self._answers.settle(exchange, answer)
        self.in_flight = len(self._answers)
        if self._continue_due and not self.in_flight:
            self._continue_due = False
            sent += CONTINUE
        return sent

    def _is_unfinished(self) -> bool:
        return self._request is not None or bool(self._buffer)

    def _at_the_end(self) -> Event | None:
        if self._is_unfinished():
            return self._refuse(malformed("the stream ended inside a request"))
        self.stop()
        return self.close_event()

    def _forget_input(self) -> None:
        self._buffer.clear()
        self._request = None
        self._continue_due = False


def _answer_headers(head: RequestHead | None, close: bool) -> bytes:
    """The header lines that the answer to this request must carry."""
    headers = b"Connection: close\r\n" if close else b""
    if head is None:
        return headers
    if head.http_1_0 and not close:
        headers = b"Connection: keep-alive\r\n"
    if head.origin_allowed:
        origin = head.headers[ORIGIN]
        headers += b"Access-Control-Allow-Origin: %b\r\nVary: Origin\r\n" % origin
    return headers


def _line(text: str) -> bytes:
    return text.encode() + b"\n"
