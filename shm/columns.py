"""Counters with one writer each: a column per process, only ever added to, summed by who reads.

Unlocked increments from several processes lose updates; a word that only one process writes loses
none, and its reader sees a whole value. When a process dies its column stays, and its successor
adds to it: totals never go back.
"""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from .layout import ARRIVED_COLUMN, COUNTERS, LEVEL_COLUMN, MAX_LEVELS, METHOD_COLUMN, WORD, word_of
from .segment import Segment

# Sums of costs and of waiting times are modulo 2^64: a cost column may lie below 0, and thousands
# of calls that always wait reach it in weeks.
MASK = 0xFFFF_FFFF_FFFF_FFFF
_METHOD_WORDS = METHOD_COLUMN.itemsize // WORD
_ARRIVED_WORDS = ARRIVED_COLUMN.itemsize // WORD
_LEVEL_WORDS = LEVEL_COLUMN.itemsize // WORD
_COST, _SQUARES, _DIED, _JOINT_RUNS = (
    word_of(METHOD_COLUMN, name) for name in ("cost", "squares", "died", "joint_runs")
)
_LOW = 0xFFFF_FFFF


class Counter(enum.IntEnum):
    """What a process counts; the value is the word's place in its column."""

    CALLS = 0  # read from connections, notifications too
    ANSWERED = 1  # answers handed to a connection
    REFUSED_QUEUE_FULL = 2
    REFUSED_PRINCIPAL = 3
    REFUSED_RESPONSE_TIME = 4
    REFUSED_INVALID = 5  # not a request, an unknown method
    EXPIRED = 6
    CANCELLED = 7
    DROPPED = 8  # given up because the connection closed
    CONNECTIONS = 9  # ever adopted
    CLOSED_SLOW = 10  # connections closed by a time-out
    CLOSED_PROTOCOL = 11
    BYTES_IN = 12
    BYTES_OUT = 13
    DIED = 14  # answered "handler died"
    CLAIMS_REFUSED = 15  # claimed names that were not believed
    RUN = 16  # calls whose user code ran (handlers)
    FAILED = 17  # of those, how many raised
    BUSY_NS = 18  # in user code
    LATE = 19  # claimed calls that were given up or expired before they began
    REQUEUED = 20  # by the janitor
    SWEEPS = 21
    SWEEPS_MISSED = 22
    REAPED = 23
    SHUTTING_DOWN = 24  # refused because the server stops
    REFUSED_CONNECTIONS = 25  # closed by the acceptor: too many, or no reader took them
    IDENTITY_UNKNOWN = 26  # calls for which the identity provider had none, or raised
    REFUSED_MAX_WAIT = 27
    FAILED_OVER = 28  # of those refused, how many were sent to another server
    CLOSED_BACKOFF = 29  # connections closed because a call was refused
    SLOW = 30  # calls that were logged for being slow
    THROTTLED = 31  # refused: a limiter opens behind the call's deadline


class Columns:
    """All columns: `counters` (processes, COUNTERS), `costs` and `calls` (processes, identities),
    `refused_calls` (readers, identities), `methods` (handlers, methods), `arrived` (readers,
    methods) and `levels` (handlers, MAX_LEVELS) records."""

    def __init__(self, segment: Segment) -> None:
        g, layout = segment.geometry, segment.layout
        self._q = segment.q
        self._counters = layout.counters // WORD
        self._costs, self._calls = layout.costs // WORD, layout.calls // WORD
        self._identities = g.identities
        self.counters = segment.words(layout.counters, g.processes * COUNTERS).reshape(-1, COUNTERS)
        self.costs = segment.words(layout.costs, g.processes * g.identities).reshape(
            -1, g.identities
        )
        self.calls = segment.words(layout.calls, g.processes * g.identities).reshape(
            -1, g.identities
        )
        self.refused_calls = segment.words(layout.refused, g.readers * g.identities).reshape(
            g.readers, g.identities
        )
        self._refused = layout.refused // WORD
        self.methods = segment.records(
            METHOD_COLUMN, layout.method_columns, g.handlers * g.methods
        ).reshape(g.handlers, g.methods)
        self._methods, self._method_count = layout.method_columns // WORD, g.methods
        self.arrived = segment.records(
            ARRIVED_COLUMN, layout.arrived_columns, g.readers * g.methods
        ).reshape(g.readers, g.methods)
        self._arrived = layout.arrived_columns // WORD
        self.levels = segment.records(
            LEVEL_COLUMN, layout.level_columns, g.handlers * MAX_LEVELS
        ).reshape(g.handlers, MAX_LEVELS)
        self._levels = layout.level_columns // WORD
        self._doubles = segment.bytes.cast("d")  # the same words, as floating-point numbers

    def own(self, process: int) -> memoryview:
        """The counters of `process`, which is this one: `own[Counter.CALLS] += 1`."""
        first = self._counters + process * COUNTERS
        return self._q[first : first + COUNTERS]

    def add(self, process: int, counter: int, amount: int = 1) -> None:
        """Add to `counter` of `process`, which is this one."""
        self._q[self._counters + process * COUNTERS + counter] += amount

    def charge(self, process: int, identity: int, cost: int, calls: int = 1) -> None:
        """Charge `cost` for `calls` calls to row `identity`, in the column of this `process`.

        A `cost` below 0 takes back what was charged before.
        """
        at = process * self._identities + identity
        paid = self._costs + at
        self._q[paid] = self._q[paid] + cost & MASK
        self._q[self._calls + at] += calls

    def refused(self, reader: int, identity: int) -> None:
        """Reader number `reader`, which is this one, refused a call of row `identity`."""
        self._q[self._refused + reader * self._identities + identity] += 1

    def cost_word(self, process: int) -> int:
        """The index in the segment's words of what `process` has charged to row 0."""
        return self._costs + process * self._identities

    def ran(
        self,
        handler: int,
        method: int,
        spent_ns: int,
        failed: int,
        calls: int = 1,
        longest_ns: int = 0,
    ) -> None:
        """Handler number `handler`, which is this one, ran `method`: `calls` times, for `spent_ns`
        in all, of which the longest took `longest_ns`."""
        q = self._q
        at = self._methods + (handler * self._method_count + method) * _METHOD_WORDS
        q[at] += calls
        if failed:
            q[at + 1] += failed
        q[at + 2] += spent_ns
        if calls == 1:
            longest_ns = spent_ns
        if longest_ns > q[at + 3]:
            q[at + 3] = longest_ns

    def ran_together(self, handler: int, method: int) -> None:
        """Handler number `handler`, which is this one, ran several calls of `method` at once."""
        at = self._methods + (handler * self._method_count + method) * _METHOD_WORDS + _JOINT_RUNS
        self._q[at] += 1

    def cost(self, handler: int, method: int, cost: int) -> None:
        """A call of `method` that handler number `handler`, which is this one, ran cost `cost`."""
        at = self._methods + (handler * self._method_count + method) * _METHOD_WORDS + _COST
        self._q[at] = self._q[at] + cost & MASK

    def square(self, handler: int, method: int, spent_ns: int) -> None:
        """For the deviation of what `method` takes: see `scheduling.slow_calls`."""
        at = self._methods + (handler * self._method_count + method) * _METHOD_WORDS + _SQUARES
        self._doubles[at] += float(spent_ns) * spent_ns

    def died(self, handler: int, method: int, mark: int, calls: int = 1) -> None:
        """A run of `method` ended with handler number `handler`; only the janitor says so.

        `mark` (32 bits) tells this run from the one before it: said twice, it counts once, for
        count and mark are one store. `calls` of them, if they were run together.
        """
        at = self._methods + (handler * self._method_count + method) * _METHOD_WORDS + _DIED
        if self._q[at] & _LOW != mark:
            self._q[at] = (self._q[at] >> 32) + calls << 32 | mark

    def deaths(self) -> npt.NDArray[np.uint64]:
        """Runs that ended with their handler: shape (handlers, methods)."""
        ended: npt.NDArray[np.uint64] = self.methods["died"] >> np.uint64(32)
        return ended

    def samples(self, method: int) -> tuple[int, int, float]:
        """Calls of `method`, their ns and the sum of their squares, over all handlers."""
        column = self.methods[:, method]
        squares = np.ascontiguousarray(column["squares"]).view(np.float64)
        return int(column["calls"].sum()), int(column["spent_ns"].sum()), float(squares.sum())

    def responded(self, handler: int, level: int, response_ns: int, calls: int = 1) -> None:
        """Handler number `handler`, which is this one, answered `calls` calls of `level`, after
        `response_ns` in all."""
        q, at = self._q, self._levels + (handler * MAX_LEVELS + level) * _LEVEL_WORDS
        q[at + 1] = q[at + 1] + response_ns & MASK
        q[at] += calls

    def arrives(self, reader: int, method: int, size: int) -> None:
        """Reader number `reader`, which is this one, has read a call of `method`."""
        at = self._arrived + (reader * self._method_count + method) * _ARRIVED_WORDS
        self._q[at] += 1
        self._q[at + 1] += size

    def fingerprint(self) -> int:
        """The sum of all counters: as long as it is the same, no process has counted anything."""
        return int(self.counters.sum(dtype=np.uint64))

    def total(self, counter: int) -> int:
        """`counter` over all processes."""
        return int(self.counters[:, counter].sum())

    def cost_totals(self) -> npt.NDArray[np.uint64]:
        """Cost ever charged per identity row: shape (identities,)."""
        total: npt.NDArray[np.uint64] = self.costs.sum(axis=0, dtype=np.uint64)
        return total

    def call_totals(self) -> npt.NDArray[np.uint64]:
        """Calls ever charged per identity row: shape (identities,)."""
        total: npt.NDArray[np.uint64] = self.calls.sum(axis=0, dtype=np.uint64)
        return total

    def refused_totals(self) -> npt.NDArray[np.uint64]:
        """Calls ever refused per identity row: shape (identities,)."""
        total: npt.NDArray[np.uint64] = self.refused_calls.sum(axis=0, dtype=np.uint64)
        return total
