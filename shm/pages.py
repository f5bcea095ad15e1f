"""Payload pages: where requests and answers lie, in chains of 4 KiB or of 64 KiB pages.

A page's owner word names a slot and a generation. **A page is in use iff that generation is not
before its slot's** (it is that one, or the one after it). So the reader's store of FREE, which
raises the generation, frees every page of the call at once, whoever dies when; and a page that
stays with its slot for the next call is stamped one generation ahead first, so that it is never
free in between. (A dead reader's slots are raised by two.) The free stacks are an index of that
truth, guarded by the pages lock.

    4 KiB class:  up to SMALL_RUN pages, for bodies up to 16 KiB
    64 KiB class: everything longer; the last page may be part empty

A body's place is one word, `byte offset in the first page << 32 | first page + 1`; pages of the
64 KiB class are numbered after those of 4 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from . import states
from .layout import LARGE_PAGE, PAGE_INDEX, SLOT, SMALL_PAGE, WORD
from .segment import Segment

BESIDE_ALIGNMENT = 64  # bytes: where an answer begins behind its request
SMALL_RUN = 4  # longer bodies take 64 KiB pages
PAGES_LOCK = 2

USED = 1 << 31
REQUEST, ANSWER = 0, 1
_KIND_SHIFT = 24  # below USED, above the slot
_SLOT_MASK = 0xFF_FFFF  # layout: fewer than 2^24 calls
_SLOT_WORDS = SLOT.itemsize // WORD
_BEHIND = 1 << 31  # a difference of generations from here on is a negative one


class _PageClass:
    """The pages of one size: their words and the stack of free ones."""

    def __init__(self, segment: Segment, words: int, stack: int, count: int, first: int) -> None:
        self.count = count
        self.first = first  # the number of this class's first page
        self.records = segment.words(words, count * 2).reshape(count, 2)
        self.free = stack // WORD
        self.stack = self.free + PAGE_INDEX.itemsize // WORD
        self.stack_words = segment.words(stack + PAGE_INDEX.itemsize, count)


class PagePool:
    """Take pages for a body, write and read bodies, give pages back."""

    def __init__(self, segment: Segment) -> None:
        g, layout = segment.geometry, segment.layout
        self._q = segment.q
        self._bytes, self._memory = segment.bytes, segment.memory
        self._slots = layout.slots // WORD
        self._states = segment.words(layout.slots, g.calls * _SLOT_WORDS)[::_SLOT_WORDS]
        small = _PageClass(segment, layout.small_words, layout.small_stack, g.small_pages, 0)
        large = _PageClass(
            segment, layout.large_words, layout.large_stack, g.large_pages, g.small_pages
        )
        self._classes = (small, large)
        self._small_count = g.small_pages
        self._small_words = layout.small_words // WORD
        self._large_words = layout.large_words // WORD
        self._small_base, self._large_base = layout.small_pages, layout.large_pages
        self.lock = segment.lock_at(PAGES_LOCK, "pages", self.rebuild)

    # -- taking and giving back ------------------------------------------------------------------

    def take(self, slot: int, kind: int, length: int, leave_one_in: int = 0) -> int:
        """Pages for `length` bytes, chained and owned by `slot`: first page + 1, or 0 if none.

        `leave_one_in`: that part of the pages of the size is left to others (0: none is).
        """
        return self.take_many([(slot, kind, length)], leave_one_in)[0]

    def take_many(self, wants: list[tuple[int, int, int]], leave_one_in: int = 0) -> list[int]:
        """`take` for several (slot, kind, length), under one lock."""
        taken = [0] * len(wants)
        with self.lock:
            for index, (slot, kind, length) in enumerate(wants):
                large = length > SMALL_RUN * SMALL_PAGE
                size = LARGE_PAGE if large else SMALL_PAGE
                pages, count = self._classes[large], -(-length // size) or 1
                left = pages.count // leave_one_in if leave_one_in else 0
                if self._q[pages.free] >= count + left:
                    taken[index] = self._pop(pages, count, slot, kind)
        return taken

    def give_back(self, chains: Iterable[tuple[int, int, int]]) -> None:
        """Return chains of (first page + 1, slot, generation) whose slots were released.

        A page that a rebuild has found free meanwhile names another owner, or none: it is left.
        """
        q = self._q
        with self.lock:
            for first, slot, generation in chains:
                at, owner = first, generation << 32 | USED | slot
                while at:
                    page = at - 1
                    record = self._record(page)
                    at = q[record + 1]
                    if q[record] & ~(1 << _KIND_SHIFT) != owner:
                        break
                    q[record] = 0  # <- free
                    self._push(page)

    def restamp(self, first: int, slot: int, generation: int) -> None:
        """The small page `first` stays with `slot` for its next call, of `generation`."""
        self._q[self._small_words + 2 * (first - 1)] = (
            (generation & 0xFFFF_FFFF) << 32 | USED | slot
        )

    def give_back_unlinked(self, slot: int) -> int:
        """Free the answer pages of `slot`, whose handler died before it stored the answer word.

        Only for the janitor, while the dead handler still owns the slot: afterwards they may be
        those of another answer. Returns how many.
        """
        freed = 0
        mine = USED | ANSWER << _KIND_SHIFT | slot
        with self.lock:
            for pages in self._classes:
                low = pages.records[:, 0] & np.uint64(0xFFFF_FFFF)
                for page in np.flatnonzero(low == np.uint64(mine)).tolist():
                    self._q[self._record(pages.first + page)] = 0
                    self._push(pages.first + page)
                    freed += 1
        return freed

    # -- bodies ----------------------------------------------------------------------------------

    def write(self, place: int, body: bytes) -> None:
        """Copy `body` to `place`; its chain is long enough."""
        first, offset, length = (place & 0xFFFF_FFFF) - 1, place >> 32, len(body)
        if first < self._small_count and offset + length <= SMALL_PAGE:
            at = self._small_base + first * SMALL_PAGE + offset
            self._bytes[at : at + length] = body
            return
        view, done = memoryview(body), 0
        for start, part in self._parts(first, offset, length):
            self._bytes[start : start + part] = view[done : done + part]
            done += part

    def write_small(self, place: int, body: bytes) -> None:
        """The same for a body that one page of 4 KiB holds, from its beginning."""
        at = self._small_base + (place - 1) * SMALL_PAGE
        self._bytes[at : at + len(body)] = body

    def write_beside(self, request: int, body: bytes) -> int:
        """Copy `body` behind a request (`length << 32 | place`) in its only page: its place; 0 if
        it does not fit there."""
        page = request & 0xFFFF_FFFF
        offset = (request >> 32) + BESIDE_ALIGNMENT - 1 & -BESIDE_ALIGNMENT
        end = offset + len(body)
        if end > SMALL_PAGE or page > self._small_count:
            return 0
        at = self._small_base + (page - 1) * SMALL_PAGE
        self._bytes[at + offset : at + end] = body
        return offset << 32 | page

    def read(self, place: int, length: int) -> bytes:
        """The `length` bytes at `place`, copied out."""
        first, offset = (place & 0xFFFF_FFFF) - 1, place >> 32
        if first < self._small_count and offset + length <= SMALL_PAGE:
            at = self._small_base + first * SMALL_PAGE + offset
            return self._memory[at : at + length]
        body, done = bytearray(length), 0
        for start, part in self._parts(first, offset, length):
            body[done : done + part] = self._bytes[start : start + part]
            done += part
        return bytes(body)

    def _parts(self, page: int, offset: int, length: int) -> Iterator[tuple[int, int]]:
        """(byte offset in the segment, length) of each page's part of a body."""
        while length:
            start, size = self._start(page)
            part = min(size - offset, length)
            yield start + offset, part
            length, offset = length - part, 0
            page = self._q[self._record(page) + 1] - 1

    # -- the index -------------------------------------------------------------------------------

    def free_pages(self) -> tuple[int, int]:
        """How many pages of 4 KiB and of 64 KiB are on the stacks; read without the lock."""
        small, large = (self._q[pages.free] for pages in self._classes)
        return small, large

    def rebuild(self) -> None:
        """Derive the free stacks from owner words and generations (lock held)."""
        for pages in self._classes:
            free = np.flatnonzero(~self._in_use(pages))
            self._q[pages.free] = 0
            pages.records[free, 0] = 0
            pages.stack_words[: len(free)] = (free + pages.first).astype(np.uint64)
            self._q[pages.free] = len(free)

    def audit(self) -> list[str]:
        """Free stacks against the truth; [] when sound. Pages not yet given back are no fault."""
        bad = []
        with self.lock:
            for pages in self._classes:
                count = self._q[pages.free]
                stack = pages.stack_words[: min(count, pages.count)].tolist()
                numbers = range(pages.first, pages.first + pages.count)
                if len({page for page in stack if page in numbers}) != count:
                    bad.append(f"free stack of page {pages.first}: {count} entries, not distinct")
                    continue
                used = self._in_use(pages)
                held = [page for page in stack if used[page - pages.first]]
                if held:
                    bad.append(f"pages both free and in use: {held[:5]}")
        return bad

    def leaked(self) -> int:
        """Pages that are free in truth and on no stack; 0 when nothing is in flight."""
        with self.lock:
            free = sum(int((~self._in_use(pages)).sum()) for pages in self._classes)
            return free - sum(self.free_pages())

    def _in_use(self, pages: _PageClass) -> npt.NDArray[np.bool_]:
        """Read while readers go on: who restamps a page and releases its slot takes no lock.

        The slots' generations are read before the pages'. So a page that is in use may seem to be
        any number of generations ahead of its slot, and none seems to be behind.
        """
        owner = pages.records[:, 0]
        slot = (owner & np.uint64(_SLOT_MASK)).astype(np.intp)  # changes only under the lock
        known = slot < len(self._states)  # a scribbled word names no slot, and the page is free
        generation = self._states[slot * known] >> np.uint64(states.GENERATION_SHIFT)
        owner = pages.records[:, 0].copy()
        ahead = (owner >> np.uint64(32)) - generation & np.uint64(0xFFFF_FFFF)
        used: npt.NDArray[np.bool_] = (
            known & ((owner & np.uint64(USED)) != 0) & (ahead < np.uint64(_BEHIND))
        )
        return used

    def _pop(self, pages: _PageClass, count: int, slot: int, kind: int) -> int:
        q = self._q
        free = q[pages.free]
        generation = q[self._slots + slot * _SLOT_WORDS] & states.GENERATIONS
        owner, following = generation | USED | kind << _KIND_SHIFT | slot, 0
        for at in range(pages.stack + free - count, pages.stack + free):
            page = q[at]
            record = self._record(page)
            q[record + 1] = following
            q[record] = owner  # <- taken
            following = page + 1
        q[pages.free] = free - count
        return following

    def _push(self, page: int) -> None:
        q, pages = self._q, self._classes[page >= self._small_count]
        free = q[pages.free]
        q[pages.stack + free] = page
        q[pages.free] = free + 1

    def _record(self, page: int) -> int:
        if page < self._small_count:
            return self._small_words + 2 * page
        return self._large_words + 2 * (page - self._small_count)

    def _start(self, page: int) -> tuple[int, int]:
        """Byte offset and size of `page`."""
        if page < self._small_count:
            return self._small_base + page * SMALL_PAGE, SMALL_PAGE
        return self._large_base + (page - self._small_count) * LARGE_PAGE, LARGE_PAGE
