"""The text of all rates in force, in two blocks of which one counts (`scheduling.dispatch_lines`).

It lies here, and not in each process, so that a rate can be changed while the server runs. A change
is written into the other block under the queue lock, and put in force by one store of the version.
"""

from __future__ import annotations

from .layout import RATES_BYTES, SHARD, WORD
from .segment import Segment


class RatesTooLong(ValueError):
    """More text than a block holds."""


class Rates:
    """`version_word` is 0 while there are none."""

    def __init__(self, segment: Segment) -> None:
        self._q, self._bytes = segment.q, segment.bytes
        self._first = segment.layout.rates
        self.version_word = segment.word(segment.layout.shard, SHARD, "rates_version")

    def read(self) -> tuple[int, str]:
        """(version, text); takes no lock: what was overwritten meanwhile is read again."""
        while True:
            version = self._q[self.version_word]
            at = self._block(version)
            length = min(self._q[at // WORD], RATES_BYTES)
            text = bytes(self._bytes[at + WORD : at + WORD + length])
            if self._q[self.version_word] == version:
                return version, text.decode() if version else ""

    def check(self, text: str) -> None:
        """RatesTooLong; to be asked before the lock is taken, which no exception may leave."""
        if (length := len(text.encode())) > RATES_BYTES:
            raise RatesTooLong(f"rates of {length} bytes, at most {RATES_BYTES}")

    def write(self, text: str) -> int:
        """Put `text`, which was checked, in force; its version (queue lock held)."""
        encoded = text.encode()
        version = self._q[self.version_word] + 1
        at = self._block(version)
        self._bytes[at + WORD : at + WORD + len(encoded)] = encoded
        self._q[at // WORD] = len(encoded)
        self._q[self.version_word] = version  # <- in force
        return version

    def _block(self, version: int) -> int:
        return self._first + (version & 1) * (WORD + RATES_BYTES)
