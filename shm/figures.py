"""What a handler counts of the calls that it ran: those of one kind together, in a few stores.

Calls are of one kind if method, flags, the level that the scheduler chose and the level where they
waited are the same. They are counted right before their answers are published: so who has an answer
finds its call in the statistics. Of a handler that dies before, the janitor counts those whose
answers are complete (`server.janitor.dead_calls`). One that dies between the count and the end of
the publishing may leave some counted twice, at most once per death: those of one publishing (with
`log.slow.rpc`, which has each call counted when it ends, those that were not published).

What is known of a method's time (`expected`) is adjusted here, too.
"""

from __future__ import annotations

from . import states
from .columns import Columns, Counter
from .expected import adjusted
from .histograms import NOT_RUN, Histograms
from .layout import GROUP_SHIFT, METHOD, SLOT, WORD, word_of
from .segment import Segment

_S = {name: word_of(SLOT, name) for name in SLOT.names or ()}
_CALL, _IDENTITY = _S["call"], _S["identity"]
_ARRIVED, _CLAIMED = _S["arrived_ns"], _S["claimed_ns"]
_METHOD_WORDS = METHOD.itemsize // WORD
_EXPECTED = word_of(METHOD, "expected_ns")
_TO_MEAN = word_of(METHOD, "mean_ns") - _EXPECTED
_LEVEL = ((1 << GROUP_SHIFT) - 1) << states.LEVEL_SHIFT  # in a state word: that in its group
_TO_KIND = 56 - states.LEVEL_SHIFT  # where a `call` word has room for it
_LOW = 0xFFFF_FFFF
_RUN, _BUSY_NS = int(Counter.RUN), int(Counter.BUSY_NS)


class _Kind:
    """What is to be counted of one: for each call whose it was, and its times in ns."""

    __slots__ = ("failed", "identities", "response_ns", "spent", "waits")

    def __init__(self) -> None:
        self.identities: list[int] = []
        self.waits: list[int] = []
        self.spent: list[int] = []
        self.failed = self.response_ns = 0

    def clear(self) -> None:
        self.identities.clear()
        self.waits.clear()
        self.spent.clear()
        self.failed = self.response_ns = 0


class CallFigures:
    """Those of handler `number`, whose process index is `index`."""

    def __init__(
        self, segment: Segment, columns: Columns, histograms: Histograms, number: int, index: int
    ) -> None:
        self._q, self._number, self._columns = segment.q, number, columns
        self._counts = columns.own(index)
        self._histograms = histograms.of_handler(number)
        self._expected0 = segment.layout.methods // WORD + _EXPECTED
        self._kinds: dict[int, _Kind] = {}
        self._ran: list[tuple[int, _Kind]] = []  # kinds of which something is to be counted

    def ran(self, own: int, ended_ns: int, spent_ns: int, failed: bool) -> None:
        """The call whose slot's words begin at `own` ended at `ended_ns`.

        `spent_ns`: its part of the time, if it ran with others.
        """
        q = self._q
        word = q[own + _CALL] | (q[own] & _LEVEL) << _TO_KIND
        kind = self._kinds.get(word)
        if kind is None:
            kind = self._kinds[word] = _Kind()
        if not kind.spent:
            self._ran.append((word, kind))
        arrived_ns = q[own + _ARRIVED]
        wait_ns, response_ns = q[own + _CLAIMED] - arrived_ns, ended_ns - arrived_ns
        kind.waits.append(wait_ns if wait_ns > 0 else 0)  # it may come while one claims
        kind.response_ns += response_ns if response_ns > 0 else 0
        kind.identities.append(q[own + _IDENTITY])
        kind.spent.append(spent_ns)
        kind.failed += failed

    def late(self, own: int) -> None:
        """A claimed call was given up, or expired, before it began."""
        q = self._q
        level = (q[own] & _LEVEL) >> states.LEVEL_SHIFT
        wait_ns = max(0, q[own + _CLAIMED] - q[own + _ARRIVED])
        self._counts[Counter.LATE] += 1
        self._histograms.ran(q[own + _CALL] & _LOW, level, q[own + _IDENTITY], wait_ns, NOT_RUN)

    def store(self) -> None:
        """Count what `ran` was told of."""
        for word, kind in self._ran:
            self._count(word, kind)
            kind.clear()
        self._ran.clear()

    def _count(self, word: int, kind: _Kind) -> None:
        q, counts, number, spent = self._q, self._counts, self._number, kind.spent
        method, count, busy_ns = word & _LOW, len(spent), sum(spent)
        scheduled = word >> states.SCHEDULED_SHIFT & states.LEVEL_MASK
        self._columns.ran(number, method, busy_ns, kind.failed, count, max(spent))
        self._columns.responded(number, scheduled, kind.response_ns, count)
        self._histograms.count(method, word >> 56, kind.identities, kind.waits, spent)
        counts[_RUN] += count
        counts[_BUSY_NS] += busy_ns
        if kind.failed:
            counts[Counter.FAILED] += kind.failed
        expected = self._expected0 + method * _METHOD_WORDS
        q[expected] = adjusted(q[expected], spent, q[expected + _TO_MEAN])
