"""Tables of names in shared memory: identities (who calls) and methods (what is called).

A row is committed by the store of its hash, after its name; the hash index behind it only speeds
up finding and is rebuilt when who was changing it died. `find` takes no lock: a row that it returns
had the name at that moment, and who keeps the row checks its generation before using it again.
Hashes are keyed with the segment's random `boot`: nobody can choose names that collide.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from .layout import HEADER, IDENTITY, METHOD, NAME_BYTES, SHARD, WORD, word_of
from .mutex import RobustMutex
from .segment import Segment

NAMES_LOCK = 1
OTHERS = 0  # the identity row of all who found no row
OTHERS_NAME = "(others)"
NEVER_USED_NS = (1 << 64) - 1
LOOKED_AT_ONCE = 512  # rows, for a free one
_SINCE, _LAST = word_of(METHOD, "since"), word_of(METHOD, "last")


class NamesFull(Exception):
    """Every row has a name; raised outside of the lock."""


class NameTable:
    """Rows of `dtype`, which has `hash`, `name_bytes` and `name`; found by name."""

    def __init__(
        self, segment: Segment, dtype: np.dtype[np.void], rows: int, index: int, count: int
    ) -> None:
        self.count = count
        self.row_words = dtype.itemsize // WORD
        self.first = rows // WORD
        self.q = segment.q
        self.rows = segment.records(dtype, rows, count)
        self._bytes = segment.bytes
        self._name_at = word_of(dtype, "name") * WORD
        self._name_bytes = word_of(dtype, "name_bytes")
        self._row_bytes = dtype.itemsize
        self._start = rows
        self._buckets = segment.geometry.buckets
        self._index = index // WORD
        self._index_words = segment.words(index, self._buckets)
        self._boot = segment.word(segment.layout.header, HEADER, "boot")
        self.next_row = 0  # below it this process knows of no free row

    def key(self, name: str) -> tuple[int, bytes]:
        """(hash, stored bytes) of `name`; one longer than NAME_BYTES keeps a digest of its tail."""
        encoded = name.encode("utf-8", "surrogatepass")
        seed = self.q[self._boot].to_bytes(8, "little")
        digest = hashlib.blake2b(encoded, digest_size=8, key=seed).digest()
        if len(encoded) > NAME_BYTES:
            encoded = encoded[: NAME_BYTES - 17] + b"~" + digest.hex().encode()
        return int.from_bytes(digest, "little") | 1, encoded

    def find(self, name: str) -> int:
        """The row of `name`; -1 if it has none."""
        return self._probe(*self.key(name))

    def name(self, row: int) -> str:
        """The name in `row`; "" if it is free."""
        base = self.first + row * self.row_words
        if not self.q[base]:
            return ""
        at = self._start + row * self._row_bytes + self._name_at
        stored = bytes(self._bytes[at : at + self.q[base + self._name_bytes]])
        return stored.decode(errors="replace")

    def used_rows(self) -> list[int]:
        """The rows that have a name."""
        return [int(row) for row in np.flatnonzero(self.rows["hash"])]

    def free_row(self) -> int:
        """A row without a name; -1 if there is none (names lock held).

        The look goes on behind the last one that this process found, and around (others free rows,
        too): a new name among many costs no look at all of them.
        """
        for start, end in ((self.next_row, self.count), (0, self.next_row)):
            for first in range(start, end, LOOKED_AT_ONCE):
                hashes = self.rows["hash"][first : min(first + LOOKED_AT_ONCE, end)]
                if len(free := np.flatnonzero(hashes == 0)):
                    row = first + int(free[0])
                    self.next_row = row + 1
                    return row
        return -1

    def put(self, row: int, name: str, **fields: int) -> int:
        """`name`, which has no row, gets the free `row` and its `fields` (names lock held)."""
        hashed, encoded = self.key(name)
        at = self._start + row * self._row_bytes + self._name_at
        self._bytes[at : at + len(encoded)] = encoded
        record: Any = self.rows[row]
        record["name_bytes"] = len(encoded)
        for field, value in fields.items():
            record[field] = value
        self.q[self.first + row * self.row_words] = hashed  # <- the row exists
        self._index_words[self._place(self._index_words, hashed)] = row + 1
        return row

    def rebuild_index(self) -> None:
        """The index, from the rows' hashes (names lock held).

        Made aside and copied over the old one, so that who looks without the lock finds its name.
        """
        index = np.zeros_like(self._index_words)
        for row in self.used_rows():
            index[self._place(index, int(self.rows["hash"][row]))] = row + 1
        self._index_words[:] = index

    def _probe(self, hashed: int, encoded: bytes) -> int:
        q, mask = self.q, self._buckets - 1
        for step in range(self._buckets):
            entry = q[self._index + (hashed + step & mask)]
            if not entry:
                return -1
            base = self.first + (entry - 1) * self.row_words
            if q[base] == hashed and q[base + self._name_bytes] == len(encoded):
                at = self._start + (entry - 1) * self._row_bytes + self._name_at
                if self._bytes[at : at + len(encoded)] == encoded:
                    return entry - 1
        return -1

    def _place(self, index: npt.NDArray[np.uint64], hashed: int) -> int:
        """The first empty bucket of `index` for `hashed`."""
        mask = self._buckets - 1
        while index[hashed & mask]:
            hashed += 1
        return hashed & mask


class Names:
    """Both tables and the lock that guards their changes; it nests in nothing."""

    def __init__(self, segment: Segment) -> None:
        g, layout = segment.geometry, segment.layout
        self.identities = NameTable(
            segment, IDENTITY, layout.identities, layout.identity_index, g.identities
        )
        self.methods = NameTable(segment, METHOD, layout.methods, layout.method_index, g.methods)
        self.lock: RobustMutex = segment.lock_at(NAMES_LOCK, "names", self.rebuild)
        shape = (g.processes, g.identities)
        self.costs = segment.words(layout.costs, g.processes * g.identities).reshape(shape)
        self.calls = segment.words(layout.calls, g.processes * g.identities).reshape(shape)
        self._generation = segment.word(layout.header, HEADER, "generation")
        self.refused = segment.words(layout.refused, g.readers * g.identities).reshape(
            g.readers, g.identities
        )
        self.no_strangers: frozenset[str] = frozenset()  # service users: their level is known
        self.strangers_level_word = segment.word(layout.shard, SHARD, "strangers_level")
        lasts = [layout.last_turns, *([layout.last_short] if g.has_express else [])]
        self._last_turns = [
            segment.words(last, g.identities * g.ring_numbers).reshape(-1, g.ring_numbers)
            for last in lasts
        ]

    def initialise(self) -> None:
        """The row of the others; once, by the segment's creator."""
        with self.lock:
            self.identities.put(OTHERS, OTHERS_NAME)

    def identity(self, name: str, now_ns: int, level: int = 0) -> int:
        """The row of `name`, a new one at `level` if it has none; OTHERS when the table is full."""
        row = self.identities.find(name)
        if row < 0:
            with self.lock:
                row = self.identities.find(name)
                row = self._new_identity(name, level) if row < 0 else row
        self.identities.q[self.word(row, "used_ns")] = now_ns
        return row

    def method(self, name: str, flags: int, timeout_ns: int, generation: int = 0) -> int:
        """The row of method `name`, made or updated; NamesFull if there is no room.

        Handlers of `generation` have it: until all are of that one, readers do not find what the
        others do not know (`has_method`). A row is never given to another name.
        """
        fields = {"flags": flags, "timeout_ns": timeout_ns, "last": generation}
        with self.lock:
            row = self.methods.find(name)
            if row < 0 and (free := self.methods.free_row()) >= 0:
                return self.methods.put(free, name, since=generation, **fields)
            if row >= 0:
                record: Any = self.methods.rows[row]
                if int(record["last"]) < self.methods.q[self._generation]:
                    record["since"] = generation  # it was gone, and comes again
                fields["last"] = max(generation, int(record["last"]))
                for field, value in fields.items():
                    record[field] = value
                return row
        raise NamesFull(f"all {self.methods.count} rows are taken: name={name[:80]!r}")

    def has_method(self, row: int) -> bool:
        """Whether the service has that method now: every handler knows it."""
        q, base = self.methods.q, self.methods.first + row * self.methods.row_words
        return q[base + _SINCE] <= q[self._generation] <= q[base + _LAST]

    def reference(self, row: int) -> int:
        """`generation << 32 | row`, as a slot names an identity."""
        return self.generation(row) << 32 | row

    def generation(self, row: int) -> int:
        return self.identities.q[self.word(row, "word")] >> 32

    def level(self, row: int) -> int:
        """The level that the janitor published for `row`."""
        return self.identities.q[self.word(row, "level")]

    def word(self, row: int, field: str) -> int:
        """The index of `field` of identity `row` in the segment's words."""
        return self.identities.first + row * self.identities.row_words + word_of(IDENTITY, field)

    def evict(self, rows: list[int], unused_since_ns: int = NEVER_USED_NS) -> list[int]:
        """Free identity `rows`, which no slot names; who kept one sees another generation.

        A row that was looked up after `unused_since_ns` stays. Returns the rows freed.
        """
        freed = []
        with self.lock:
            for row in rows:
                if self.identities.q[self.word(row, "used_ns")] > unused_since_ns:
                    continue
                freed.append(row)
                self.identities.q[self.word(row, "word")] += 1 << 32
                self.identities.q[self.word(row, "hash")] = 0  # <- free
            self.identities.next_row = min([self.identities.next_row, *freed])
            self.identities.rebuild_index()
        return freed

    def rebuild(self) -> None:
        """Both indices, after who was changing one died (names lock held)."""
        self.identities.rebuild_index()
        self.methods.rebuild_index()

    def _new_identity(self, name: str, level: int) -> int:
        row = self.identities.free_row()
        if row < 0:
            return OTHERS
        for last_turns in self._last_turns:
            last_turns[row] = 0
        seen = {
            "seen": int(self.costs[:, row].sum()) & 0xFFFF_FFFF_FFFF_FFFF,
            "calls_seen": int(self.calls[:, row].sum()),
            "refused_seen": int(self.refused[:, row].sum()),
        }
        fresh = dict.fromkeys(("decayed", "raw", "waiting", "quarantined", "looked"), 0)
        return self.identities.put(row, name, level=level, **seen, **fresh)
