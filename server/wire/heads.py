"""Header blocks in a growing buffer: where they end, and what must not stand in them."""

from __future__ import annotations

from typing import Final

BLANK_LINE: Final = b"\r\n\r\n"


class HeadError(Exception):
    """The header block cannot be read."""


class BareNewline(HeadError):
    """A CR or LF that is not half of a CRLF: a line to one program, and not to another."""


class HeadTooLong(HeadError):
    pass


class HeadFinder:
    """Finds the blank line that ends a block of at most `max_bytes`, looking at each byte once."""

    __slots__ = ("_max_bytes", "_scanned")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._scanned = 0

    def find(self, buffer: bytearray) -> int:
        """Length of the block that `buffer` starts with, blank line included; 0 = not there yet."""
        end = buffer.find(BLANK_LINE, max(0, self._scanned - 3), self._max_bytes)
        if end >= 0:
            self._scanned = 0
            return end + len(BLANK_LINE)
        self._reject_bare_newlines(buffer)
        if len(buffer) >= self._max_bytes:
            raise HeadTooLong
        self._scanned = len(buffer)
        return 0

    def _reject_bare_newlines(self, buffer: bytearray) -> None:
        """At once, not at a blank line that a sender of bare newlines will never send."""
        at = buffer.find(b"\n", self._scanned, self._max_bytes)
        while at >= 0:
            if buffer[at - 1 : at] != b"\r":
                raise BareNewline
            at = buffer.find(b"\n", at + 1, self._max_bytes)


def reject_bare_newlines(head: bytes) -> None:
    """The same for a whole block, carriage returns included."""
    lines = head.count(b"\r\n")
    if head.count(b"\n") != lines or head.count(b"\r") != lines:
        raise BareNewline


def take(buffer: bytearray, count: int) -> bytes:
    """The first `count` bytes, removed; one copy."""
    if count == len(buffer):
        taken = bytes(buffer)
        buffer.clear()
        return taken
    with memoryview(buffer) as view:
        taken = bytes(view[:count])
    del buffer[:count]
    return taken
