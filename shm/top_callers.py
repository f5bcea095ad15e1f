"""Who calls what most of late, as each reader has counted it: a table with one writer per reader.

Two blocks of which one counts, told by a version: a reader writes the other one, then stores the
version, so a block is whole even if its reader died over the next one. Who reads a block and finds
the same version afterwards has read that block; a block is written over at the second publication
after it. Figures are doubles, decayed as `seconds` is (`scheduling.top_list`).

Texts are cut to what a row holds. They come from clients: who shows them escapes them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .layout import (
    ADDRESS_BYTES,
    CONTEXT_BYTES,
    NAME_BYTES,
    REFUSALS,
    TOP_BLOCK,
    TOP_CALLER,
    TOP_CALLERS,
    TOP_VERSION,
    WORD,
    word_of,
)
from .segment import Segment

REASONS = ("queue_full", "too_many_in_flight", "response_time", "max_wait", "throttled")
QUEUE_FULL, PRINCIPAL_FULL, RESPONSE_TIME, MAX_WAIT, THROTTLED = range(REFUSALS)
FIGURES = 3 + REFUSALS  # calls, cost, busy_ns, then refused by reason
READ_AT_MOST = 8  # attempts at a block that is being written

_HEAD = struct.Struct(f"<QQd{FIGURES}d")
_FIGURES = struct.Struct(f"<{FIGURES}d")
_NAMES = struct.Struct(f"<5Q{NAME_BYTES}s{CONTEXT_BYTES}s{ADDRESS_BYTES}s")
_PADDING = bytes(TOP_CALLER.itemsize - _FIGURES.size - _NAMES.size)
_BLOCK = TOP_BLOCK.itemsize + TOP_CALLERS * TOP_CALLER.itemsize
_OF_READER = TOP_VERSION.itemsize + 2 * _BLOCK


class Published(NamedTuple):
    """What a reader has published. `rows` has shape (callers,), `figures` (callers, FIGURES)."""

    at_ns: int
    seconds: float
    others: tuple[float, ...]
    rows: npt.NDArray[np.void]
    figures: npt.NDArray[np.float64]

    def text(self, row: int, field: str) -> str:
        """`user`, `context` or `address` of a row."""
        found = self.rows[row]
        length = min(int(found[f"{field}_bytes"]), found[field].nbytes)
        stored: bytes = found[field].tobytes()[:length]
        return stored.decode(errors="replace")


def names_of(identity: int, method: int, user: bytes, context: str, address: str) -> bytes:
    """What does not change of a row: `identity` is a reference, `user` as a row of names has it."""
    user = user[:NAME_BYTES]
    context_, address_ = _cut(context, CONTEXT_BYTES), _cut(address, ADDRESS_BYTES)
    lengths = (len(user), len(context_), len(address_))
    return _NAMES.pack(identity, method, *lengths, user, context_, address_) + _PADDING


def _cut(text: str, most: int) -> bytes:
    """UTF-8, at most so many bytes, of whole characters."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most:
        return encoded
    return encoded[:most].decode("utf-8", "ignore").encode()


class TopCallers:
    """Those of all readers."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self._q, self._bytes = segment, segment.q, segment.bytes
        self._first = segment.layout.top_callers

    def publish(
        self,
        reader: int,
        now_ns: int,
        seconds: float,
        others: Sequence[float],
        rows: Sequence[tuple[Sequence[float], bytes]],
    ) -> None:
        """By `reader`, which is this one: at most TOP_CALLERS rows of (figures, `names_of`)."""
        version = self._q[self._version(reader)] + 1
        at, pack = self._block(reader, version), _FIGURES.pack
        head = _HEAD.pack(len(rows), now_ns, seconds, *others)
        body = b"".join([pack(*figures) + names for figures, names in rows])
        self._bytes[at : at + len(head)] = head
        at += TOP_BLOCK.itemsize
        self._bytes[at : at + len(body)] = body
        self._q[self._version(reader)] = version  # <- it counts

    def read(self, reader: int) -> Published | None:
        """What `reader` has published; None if it never did, or publishes all the time."""
        for _ in range(READ_AT_MOST):
            version = self._q[self._version(reader)]
            if not version:
                return None
            found = self._copy(self._block(reader, version))
            if self._q[self._version(reader)] == version:
                return found
        return None

    def _copy(self, at: int) -> Published:
        count, at_ns, seconds, *others = _HEAD.unpack_from(self._bytes, at)
        count, at = min(count, TOP_CALLERS), at + TOP_BLOCK.itemsize
        rows = self._segment.records(TOP_CALLER, at, TOP_CALLERS)[:count].copy()
        words = rows.view(np.float64).reshape(count, TOP_CALLER.itemsize // WORD)
        first = word_of(TOP_CALLER, "calls")
        return Published(at_ns, seconds, tuple(others), rows, words[:, first : first + FIGURES])

    def _version(self, reader: int) -> int:
        return (self._first + reader * _OF_READER) // WORD

    def _block(self, reader: int, version: int) -> int:
        """The byte at which it begins."""
        start = self._first + reader * _OF_READER + TOP_VERSION.itemsize
        return start + (version & 1) * _BLOCK
