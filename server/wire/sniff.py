"""Which framing a connection speaks, told from its first bytes as soon as they can tell.

    { [                  newline-delimited JSON
    Content-             LSP's base protocol
    GET POST PUT ...     HTTP/1.1 (method and space); PRI, HTTP/2's preface, gets HTTP's 505
    0x16                 a TLS handshake: no TLS on this port, close without a word
    PROXY                PROXY protocol v1: refused, a forged address must not be believed
    anything else        refused with one -32700 line (PROXY v2 begins with blank lines and a NUL)

Nothing waits for a number of bytes: `P` may still become POST, `PX` cannot.  Letters are compared
without case: `content-length:` is as good, and `post` is told by HTTP that methods have capitals.
Blank lines may come first everywhere, spaces and tabs only before JSON.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from .events import Event, Send
from .faults import parse_fault
from .framing import Framing, FramingName

Verdict = Literal["unknown", "lines", "lsp", "http", "tls", "proxy", "refused"]

_METHODS: Final = b"GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH PRI".split()
_TOKENS: Final[dict[bytes, Verdict]] = {
    **{method + b" ": "http" for method in _METHODS},
    b"CONTENT-": "lsp",
    b"PROXY ": "proxy",
}
_LONGEST: Final = max(map(len, _TOKENS))
_BLANKS: Final = b" \t\r\n"


def sniff(start: bytes) -> Verdict:
    """The framing of a stream that starts so (without blanks); "unknown" = more bytes needed."""
    if not start:
        return "unknown"
    if start[0] in b"{[":
        return "lines"
    if start[0] == 0x16:
        return "tls"
    word = start[:_LONGEST].upper()
    for token, verdict in _TOKENS.items():
        if word.startswith(token):
            return verdict
    return "unknown" if any(token.startswith(word) for token in _TOKENS) else "refused"


class Sniffer(Framing):
    """Stands in until a connection has shown its framing; `start` is shorter than any token."""

    __slots__ = ("_indented", "start", "verdict")

    name: ClassVar[FramingName] = "unknown"

    def __init__(self) -> None:
        super().__init__()
        self.start = b""
        self.verdict: Verdict = "unknown"
        self._indented = False

    @property
    def buffered(self) -> int:
        return len(self.start)

    def receive(self, data: bytes) -> None:
        if self.closing or self.verdict != "unknown":
            return
        received = self.start + data
        self.start = received.lstrip(_BLANKS)
        blanks = received[: len(received) - len(self.start)]
        self._indented = self._indented or b" " in blanks or b"\t" in blanks
        self.verdict = sniff(self.start)
        if self._indented and self.verdict not in ("unknown", "lines"):
            self.verdict = "refused"

    def next_event(self) -> Event | None:
        if self.closing:
            return self.close_event()
        if self.verdict == "unknown" and not self.eof:
            self.mid_message = bool(self.start)
            return None
        silent = self.verdict == "tls" or not self.start
        detail = self._detail()
        self.stop()
        return self.close_event() if silent else Send(parse_fault(detail) + b"\n")

    def _detail(self) -> str:
        if self.verdict == "proxy":
            return "the PROXY protocol is not accepted here"
        return "neither JSON, nor Content-Length framing, nor HTTP"

    def _forget_input(self) -> None:
        self.start = b""
