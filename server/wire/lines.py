"""Newline-delimited JSON: one message per line, answers in the order in which they are ready.

CRLF ends a line too, blank lines are skipped, and what stands before the end of the stream is a
line even without its newline.  A line above the limit is answered -32054 as soon as it is seen to
be too long, and ends the connection: what follows it cannot be told from it.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from .events import Event, Message, Send
from .faults import too_large_fault
from .framing import Framing, FramingName
from .limits import WireLimits

_CR = 0x0D


class LineFraming(Framing):
    """Complete lines wait in `_lines`, the unfinished one in `_tail`: no byte is scanned twice."""

    __slots__ = ("_line_bytes", "_lines", "_max_bytes", "_overlong", "_tail")

    name: ClassVar[FramingName] = "lines"

    def __init__(self, limits: WireLimits) -> None:
        super().__init__()
        self._max_bytes = limits.max_message_bytes
        self._lines: deque[bytes] = deque()
        self._line_bytes = 0  # of them, newlines included
        self._tail = bytearray()
        self._overlong = False

    @property
    def buffered(self) -> int:
        return self._line_bytes + len(self._tail)

    def receive(self, data: bytes) -> None:
        if self.closing or self._overlong:
            return
        self.more = True
        lines, size = data.split(b"\n"), len(data)
        if self._tail:
            size += len(self._tail)
            if not self._keep(lines[0]) or len(lines) == 1:
                return
            lines[0] = bytes(self._tail)
            self._tail.clear()
        last = lines.pop()
        self._lines.extend(lines)
        self._line_bytes += size - len(last)
        if last:
            self._keep(last)

    def receive_eof(self) -> None:
        self.eof = self.more = True
        if self._tail:
            self._lines.append(bytes(self._tail))
            self._line_bytes += len(self._tail) + 1
            self._tail.clear()

    def next_event(self) -> Event | None:
        lines = self._lines
        while lines:
            line = lines.popleft()
            length = len(line)
            self._line_bytes -= length + 1
            if length > self._max_bytes:
                return self._refuse()
            if line and not line.isspace():
                self.in_flight += 1
                self.exchanges = exchange = self.exchanges + 1
                if not lines and not (self.eof or self._overlong):  # nothing else is to be told
                    self.more, self.mid_message = False, bool(self._tail)
                return Message(exchange, line[:-1] if line[-1] == _CR else line)
        return self._without_a_line()

    def answer(self, exchange: int, body: bytes | None, status: int = 200) -> bytes:
        self.in_flight -= 1
        return b"" if body is None else body + b"\n"

    def _keep(self, piece: bytes) -> bool:
        """Lengthens the unfinished line; False (and nothing kept) if it becomes too long."""
        if len(self._tail) + len(piece) > self._max_bytes:
            self._overlong = True
            self._tail.clear()
            return False
        self._tail += piece
        return True

    def _without_a_line(self) -> Event | None:
        if self.closing:
            return self.close_event()
        if self._overlong:
            return self._refuse()
        if self.eof:
            self.stop()
            return self.close_event()
        self.mid_message = bool(self._tail)
        return None

    def _refuse(self) -> Send:
        self.stop()
        return Send(too_large_fault(self._max_bytes) + b"\n")

    def _forget_input(self) -> None:
        self._lines.clear()
        self._line_bytes = 0
        self._tail.clear()
