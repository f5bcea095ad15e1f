"""How a reader waits for what comes next. The ways, the first that fits:

    look    connections have calls that were not taken yet: no wait at all
    nap     every handler is busy and much waits: let requests and answers gather, then serve them
            in one pass. A pass of one call costs about three times as much per call as one of
            eight, and takes its processor time from the handlers.
    watch   one call is in flight, and the last ones took microseconds: look for its answer for
            about as long, which is less than going to sleep and being woken
    rest    connections wait for their turn until the queue has room: what they send meanwhile is
            not read, and must not end the sleep again and again
    sleep   until epoll says something; a handler that answers rings the bell

No answer waits for longer than a nap, none is missed by a sleep: `sleeping` is stored first, then
the answers are looked for under their lock, and who publishes looks at `sleeping` afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from ...shm import doorbells
from ...shm.shared import Shared
from .callbook import CallBook
from .connection import Connection
from .drain_rate import DrainRates
from .sources import Events, Sources
from .watch import Watch

LEAST_NAP_NS = 1_000_000  # a shorter one gathers nothing
PATIENCE = 4  # naps: who has waited for longer does not notice another one
NAP_PART = 8  # of the time until the handlers have nothing left to do
WATCH_AT_MOST = 2  # calls in flight: more of them come in without being waited for


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """The longest nap and the longest watch; 0: none."""

    nap_ns: int = 0
    watch_ns: int = 0


NO_WAITS = WaitLimits()


class Patience:
    """Which connections do not notice a nap."""

    def __init__(self, limits: WaitLimits) -> None:
        self._patient_ns = PATIENCE * limits.nap_ns
        self._impatient_ns = self._patient_ns // 2

    def note(self, connection: Connection, age_ns: int) -> None:
        """A call of `connection` that came `age_ns` ago is answered now."""
        if age_ns > self._patient_ns:
            connection.patient = self._patient_ns > 0
        elif age_ns < self._impatient_ns:
            connection.patient = False


class Waiting:
    """One reader's; `collect` takes and delivers what is answered, and says how much that was."""

    def __init__(
        self,
        shared: Shared,
        number: int,
        sources: Sources,
        book: CallBook,
        drain: DrainRates,
        collect: Callable[[], int],
        limits: WaitLimits,
        clock: Callable[[], int],
    ) -> None:
        self._q, self._table = shared.segment.q, shared.table
        self._sleeping = shared.row("reader", number).word("sleeping")
        self._sources, self._book, self._drain = sources, book, drain
        self._collect, self._clock, self._nap_ns = collect, clock, limits.nap_ns
        self._has_answers = functools.partial(shared.table.has_answers, number)
        self._watch = Watch(limits.watch_ns, clock)

    def look(self) -> Events:
        """What epoll says now."""
        return self._sources.poll(0)

    def wait(self, sleep_s: Callable[[], float], full: bool = False) -> Events:
        """Nap, watch or sleep, for at most `sleep_s()`; what epoll says then. `full`: rest."""
        nap_ns = self._gathering_ns()
        if not nap_ns and self._answered_meanwhile():
            return []
        q, sleeping, sources = self._q, self._sleeping, self._sources
        try:
            if nap_ns:
                q[sleeping] = PATIENCE * nap_ns
                return sources.nap(nap_ns / 1e9)
            q[sleeping] = doorbells.ANY_AGE
            # Look once more, after `sleeping` was stored: taking the lock is the barrier.
            left_s = 0 if self._collect() else sleep_s()
            return sources.rest(left_s) if full else sources.poll(left_s)
        finally:
            q[sleeping] = doorbells.AWAKE

    def _gathering_ns(self) -> int:
        """How long nobody misses this reader, for the handlers have enough to do; 0: not long."""
        if not self._nap_ns or self._table.some_handler_idles:
            return 0
        if self._table.express_are_busy(self._clock()):
            return 0
        nap_ns = min(self._nap_ns, self._drain.left_ns() // NAP_PART)
        return nap_ns if nap_ns >= LEAST_NAP_NS else 0

    def _answered_meanwhile(self) -> bool:
        """Whether the little that is in flight was watched, and answered."""
        if not 0 < len(self._book.calls) <= WATCH_AT_MOST:
            return False
        return self._watch.sees(self._has_answers)
