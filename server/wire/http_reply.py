"""HTTP answers, and the order in which they leave.

    request 1 ── running ──┐
    request 2 ── answered ─┤  held here, copied        settle(1) = answers 1, 2 and 3 in one piece
    request 3 ── refused ──┘

The wire answers some requests itself; such an answer waits its turn like any other.
"""

from __future__ import annotations

from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .http_head import RequestHead

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Reply(Exception):
    """Raised where a request needs no call: the wire answers `status` and `text` itself.

    `close`: nothing behind this request can be trusted, or the peer asked for it.
    """

    def __init__(
        self, status: int, text: str = "", *, close: bool = False, headers: bytes = b""
    ) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text
        self.close = close
        self.headers = headers
        self.head: RequestHead | None = None  # of the request, once it could be read


def malformed(why: str) -> Reply:
    """400, and the connection ends: the two sides may not agree where the next request begins."""
    return Reply(400, why, close=True)


def too_large(max_message_bytes: int) -> Reply:
    return Reply(413, f"a message may have {max_message_bytes} bytes", close=True)


class Exchange:
    """One request: `headers` are lines its answer must carry, `answer` is None until given."""

    __slots__ = ("answer", "bodiless", "headers", "number")

    def __init__(self, number: int, headers: bytes, bodiless: bool) -> None:
        self.number = number
        self.headers = headers
        self.bodiless = bodiless  # the answer to a HEAD
        self.answer: bytes | None = None


def render(
    exchange: Exchange, status: int, content_type: bytes, body: bytes, headers: bytes = b""
) -> bytes:
    """A whole answer; no Content-Type with an empty body."""
    kind = b"Content-Type: %b\r\n" % content_type if body else b""
    head = b"%b%bContent-Length: %d\r\n%b%b\r\n" % (
        _STATUS_LINES[status],
        kind,
        len(body),
        exchange.headers,
        headers,
    )
    return head if exchange.bodiless else head + body


class AnswerQueue:
    """The exchanges not yet answered on the wire, oldest first, numbered without gaps."""

    __slots__ = ("_exchanges", "held_bytes")

    def __init__(self) -> None:
        self._exchanges: deque[Exchange] = deque()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._exchanges)

    def open(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)

    def find(self, number: int) -> Exchange:
        """The exchange that waits for its answer; ValueError if none of that number does."""
        index = number - self._exchanges[0].number if self._exchanges else -1
        if not 0 <= index < len(self._exchanges) or self._exchanges[index].answer is not None:
            raise ValueError(f"exchange {number} is not waiting for an answer")
        return self._exchanges[index]

    def settle(self, exchange: Exchange, answer: bytes) -> bytes:
        """Everything that may leave now; nothing while an older exchange is unanswered."""
        if exchange is not self._exchanges[0]:
            exchange.answer = answer
            self.held_bytes += len(answer)
            return b""
        self._exchanges.popleft()
        return answer if not self.held_bytes else answer + self._release()

    def _release(self) -> bytes:
        released = []
        while self._exchanges and self._exchanges[0].answer is not None:
            released.append(self._exchanges[0].answer)
            self._exchanges.popleft()
        freed = b"".join(released)
        self.held_bytes -= len(freed)
        return freed
