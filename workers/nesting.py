"""How deep a JSON text nests and how many items its outer array has, without parsing it.

Parsers recurse, and a batch of a million items costs fifty bytes of objects for each byte sent,
so both are bounded before a parser builds anything.  The text is reduced to its brackets, quotes
and commas by one `translate`, and a running sum over numpy bytes gives the level; memory stays
flat however long it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

_CHUNK_BYTES: Final = 1 << 18
_BRACKETS: Final = b'[]{}"'
_BRACKETS_AND_COMMAS: Final = b'[]{}",'
_STEP: Final = np.zeros(256, dtype=np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


def is_deeper_than(text: bytes, limit: int) -> bool:
    """Whether arrays and objects nest more than `limit` levels in the valid JSON `text`."""
    if len(text) <= limit or text.count(b"[") + text.count(b"{") <= limit:
        return False
    return any(int(levels.max()) > limit for _, levels in _levels(text, _BRACKETS))


def has_more_items_than(text: bytes, limit: int) -> bool:
    """Whether the JSON array `text` has more than `limit` items."""
    if text.count(b",") < limit:
        return False
    commas = 0
    for symbols, levels in _levels(text, _BRACKETS_AND_COMMAS):
        commas += int(np.count_nonzero((symbols == ord(",")) & (levels == 1)))
        if commas >= limit:
            return True
    return False


def _levels(text: bytes, kept: bytes) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Chunks of (symbol, level after it), each of shape (n,), without those inside strings."""
    symbols = _without_escapes(text).translate(None, _all_but(kept))
    level, in_string = 0, 0
    for start in range(0, len(symbols), _CHUNK_BYTES):
        chunk = np.frombuffer(symbols, np.uint8, min(_CHUNK_BYTES, len(symbols) - start), start)
        quotes = in_string + np.cumsum(chunk == ord('"'))
        outside = chunk[(quotes & 1) == 0]
        in_string = int(quotes[-1]) & 1
        if outside.size:
            levels = level + np.cumsum(_STEP[outside], dtype=np.int64)
            level = int(levels[-1])
            yield outside, levels


def _without_escapes(text: bytes) -> bytes:
    r"""`text` without `\\` and then `\"`: what is left of the quotes opens and closes strings."""
    if b"\\" not in text:
        return text
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _all_but(kept: bytes) -> bytes:
    return bytes(set(range(256)) - set(kept))
