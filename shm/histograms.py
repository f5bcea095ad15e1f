"""Histograms of times in shared memory: rows with one writer each, summed by who reads.

    wait       claimed - arrived    a handler's: per method, per level, per watched identity
    service    ended - began        a handler's: per method, per level; of calls that ran
    latency    answered - arrived   a reader's:  per method, per level; of calls that were queued

A handler's levels are those of the queue (and its lanes), where calls waited; a reader's are those
that the scheduler chose. A row belongs to the index of a process: its successor goes on in it, so
counts never go back. A kill between the two stores of a record leaves a sum without its count, at
most once per death.

Only the few identities that the janitor watches have a row, in a place that may become another's.
Each handler clears its own row of a place at the first call of the new one, and says whose it is;
who reads leaves out rows that are still somebody else's. Buckets: see `scheduling.latencies`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..scheduling.latencies import BUCKETS, Counts, Histogram, bucket_of
from . import states
from .columns import MASK
from .layout import (
    HISTOGRAM,
    IDENTITY,
    MEASURES,
    SLOT,
    WATCHED,
    WATCHED_HISTOGRAM,
    WORD,
    Geometry,
    word_of,
)
from .segment import Segment

WAIT, SERVICE = range(MEASURES)
READ_AT_MOST = 8  # attempts at a row that is being cleared
NOT_RUN = -1  # instead of a service time

_ROW = HISTOGRAM.itemsize // WORD
_PAIR = MEASURES * _ROW
_WATCHED_ROW = WATCHED_HISTOGRAM.itemsize // WORD
_IDENTITY_WORDS = IDENTITY.itemsize // WORD
_SLOT_WORDS = SLOT.itemsize // WORD
_CALL, _ARRIVED = word_of(SLOT, "call"), word_of(SLOT, "arrived_ns")
_LOW = 0xFFFF_FFFF
_CLEARED = memoryview(bytes((_WATCHED_ROW - 1) * WORD)).cast("Q")


class HandlerHistograms:
    """The rows of handler `number`, which is this one."""

    def __init__(self, segment: Segment, number: int) -> None:
        g, layout = segment.geometry, segment.layout
        self._q = segment.q
        start = layout.histograms // WORD + g.readers * g.histograms * _ROW
        self._methods, self._levels = _starts(g, start + number * g.histograms * _PAIR, _PAIR)
        self._watch = segment.word(layout.identities, IDENTITY, "watch")
        self._watched = layout.watched_histograms // WORD + number * g.watched * _WATCHED_ROW

    def ran(self, method: int, level: int, identity: int, wait_ns: int, spent_ns: int) -> None:
        """A call of `identity` (as a slot names it) has ended; `spent_ns` may be NOT_RUN."""
        self.count(method, level, [identity], [wait_ns], [] if spent_ns < 0 else [spent_ns])

    def count(
        self,
        method: int,
        level: int,
        identities: Sequence[int],
        waits: Sequence[int],
        spent: Sequence[int],
    ) -> None:
        """Calls have ended: whose each was and how long it waited, and how long those took that
        ran, all in ns."""
        q, watch = self._q, self._watch
        of_method, of_level = self._methods[method], self._levels[level]
        _add(q, of_method, of_level, waits)
        _add(q, of_method + _ROW, of_level + _ROW, spent)
        for index, identity in enumerate(identities):
            if place := q[watch + (identity & _LOW) * _IDENTITY_WORDS]:
                self._of_watched(place - 1, identity, waits[index])

    def _of_watched(self, place: int, identity: int, wait_ns: int) -> None:
        q, at = self._q, self._watched + place * _WATCHED_ROW
        if q[at] != identity:
            q[at] = 0  # <- nobody's, while it is cleared
            q[at + 1 : at + _WATCHED_ROW] = _CLEARED
            q[at] = identity
        q[at + 1] = q[at + 1] + wait_ns & MASK
        q[at + 2 + bucket_of(wait_ns)] += 1


class ReaderHistograms:
    """The rows of reader `number`, which is this one."""

    def __init__(self, segment: Segment, number: int) -> None:
        g, layout = segment.geometry, segment.layout
        self._q, self._slot0 = segment.q, layout.slots // WORD
        start = layout.histograms // WORD + number * g.histograms * _ROW
        self._methods, self._levels = _starts(g, start, _ROW)

    def answered(self, slots: Sequence[int], now_ns: int) -> None:
        """The calls of `slots` are answered; the words of none of them are of a later call yet."""
        q, slot0, kind = self._q, self._slot0, -1
        times: list[int] = []
        for slot in slots:
            own = slot0 + slot * _SLOT_WORDS
            took_ns, word = now_ns - q[own + _ARRIVED], q[own + _CALL]
            if word != kind:
                self._add(kind, times)
                kind, times = word, []
            times.append(took_ns if took_ns > 0 else 0)
        self._add(kind, times)

    def _add(self, word: int, times: Sequence[int]) -> None:
        """Calls with this `call` word took so long."""
        if times:
            level = word >> states.SCHEDULED_SHIFT & states.LEVEL_MASK
            _add(self._q, self._methods[word & _LOW], self._levels[level], times)


def _add(q: memoryview, of_method: int, of_level: int, times: Sequence[int]) -> None:
    """Each of `times` (ns) counts in both rows.

    On every call's way: `bucket_of` stands here in line.
    """
    total_ns = sum(times)
    q[of_method] = q[of_method] + total_ns & MASK
    q[of_level] = q[of_level] + total_ns & MASK
    for ns in times:
        units = ns >> 7
        octave = units.bit_length() - 4
        bucket = 1 + (units if octave <= 0 else (octave << 3) + (units >> octave))
        if bucket > BUCKETS:
            bucket = BUCKETS
        q[of_method + bucket] += 1
        q[of_level + bucket] += 1


class Histograms:
    """All rows. What is read are sums over all processes that had an index, by a look without a
    lock: a histogram may lack the newest calls, and have the sum of one without its count."""

    def __init__(self, segment: Segment) -> None:
        g, layout = segment.geometry, segment.layout
        self._segment, self._methods = segment, g.method_histograms
        of_readers = g.readers * g.histograms
        self._latency = _rows(segment, layout.histograms, of_readers).reshape(g.readers, -1)
        start = layout.histograms + of_readers * HISTOGRAM.itemsize
        of_handlers = _rows(segment, start, g.handlers * g.histograms * MEASURES)
        self._handlers = of_handlers.reshape(g.handlers, g.histograms, MEASURES)
        self.watched = segment.records(WATCHED, layout.watched, g.watched)["identity"]
        self._of_watched = segment.records(
            WATCHED_HISTOGRAM, layout.watched_histograms, g.handlers * g.watched
        ).reshape(g.handlers, g.watched)

    def of_handler(self, number: int) -> HandlerHistograms:
        return HandlerHistograms(self._segment, number)

    def of_reader(self, number: int) -> ReaderHistograms:
        return ReaderHistograms(self._segment, number)

    def wait(self, handlers: slice = slice(None)) -> Times:
        """Of all handlers, or of these."""
        return Times(self._handlers[handlers, :, WAIT], self._methods)

    def service(self) -> Times:
        return Times(self._handlers[:, :, SERVICE], self._methods)

    def latency(self) -> Times:
        return Times(self._latency, self._methods)

    def wait_of_watched(self) -> dict[int, Histogram]:
        """How long the calls of the watched waited in the queue, by the row of the identity.

        `wait_of_watched()[row].quantile(0.99)` in ns. Of each since it is watched; one whose calls
        all wait still, since then, has an empty histogram.
        """
        found = {}
        for place, identity in enumerate(self.watched.tolist()):
            if identity:
                found[identity & _LOW] = self._of_place(place, identity)
        return found

    def _of_place(self, place: int, identity: int) -> Histogram:
        total = Histogram.empty()
        for row in self._of_watched[:, place]:
            for _ in range(READ_AT_MOST):
                if row["identity"] != identity:
                    break
                copy = Histogram(row["counts"].copy(), int(row["sum_ns"]))
                if row["identity"] == identity:
                    total += copy
                    break
        return total


class Times:
    """One measure, read at one moment: `methods` and `levels` have a histogram for each."""

    def __init__(self, rows: npt.NDArray[np.void], methods: int) -> None:
        """`rows` has shape (processes, methods + levels)."""
        self._counts: Counts = rows["counts"].sum(axis=0, dtype=np.uint64)
        self._sums_ns: list[int] = rows["sum_ns"].sum(axis=0, dtype=np.uint64).tolist()
        self._first_level = methods

    @property
    def methods(self) -> list[Histogram]:
        return [self._row(row) for row in range(self._first_level)]

    @property
    def levels(self) -> list[Histogram]:
        return [self._row(row) for row in range(self._first_level, len(self._sums_ns))]

    def level(self, number: int) -> Histogram:
        """That of one of `levels`."""
        return self._row(self._first_level + number)

    def total(self) -> Histogram:
        """Of all levels together."""
        first = self._first_level
        return Histogram(self._counts[first:].sum(axis=0), sum(self._sums_ns[first:]))

    def _row(self, row: int) -> Histogram:
        return Histogram(self._counts[row], self._sums_ns[row])


def _starts(geometry: Geometry, start: int, stride: int) -> tuple[list[int], list[int]]:
    """Where the row of each method begins, and of each level: those of one process."""
    last = geometry.method_histograms - 1
    methods = [start + min(method, last) * stride for method in range(geometry.methods)]
    levels = range(geometry.method_histograms, geometry.histograms)
    return methods, [start + row * stride for row in levels]


def _rows(segment: Segment, start: int, count: int) -> npt.NDArray[np.void]:
    return segment.records(HISTOGRAM, start, count)
