"""How a handler waits that has nothing to do: it watches for the next call, or sleeps.

The claim that found nothing has set the handler's idle bit. Who brings a call takes the bit, under
the queue's lock, and rings afterwards (`shm.doorbells`). So who looks at its bit knows of the call
before the bell rings: a watch is nothing else. Nobody is told which handler watches; one that is
killed meanwhile was, to all others, one that slept. The bell is rung all the same, and ends the
next sleep, once, for a claim that finds nothing.

It watches only where calls come one at a time: since it idled last, one call has come in all, which
it has run. Where there are more, who sleeps finds several at once, which costs less for each.
"""

from __future__ import annotations

import select
from collections.abc import Callable

from ..shm import doorbells
from ..shm.shared import Shared
from ..shm.states import Phase
from .idle_watch import IdleWatch

BACKSTOP_MS = 200  # longest sleep: a wake-up that was lost with its ringer costs no more


class Idle:
    """The idle time of handler `number`; `watch_ns`: the longest watch, 0 is none."""

    def __init__(
        self, shared: Shared, number: int, watch_ns: int, clock: Callable[[], int]
    ) -> None:
        self._q, self._clock, self._phase = shared.segment.q, clock, shared.phase
        table, row = shared.table, shared.row("handler", number)
        self._claims, self._next_open = table.claims, table.held.next_open_word
        self._beat, self._leaving = row.word("beat_ns"), row.word("leaving")
        self._bit_word, self._bit = table.idle_word + (number >> 6), 1 << (number & 63)
        self._seq_word = table.seq_word
        self._seq = self._q[self._seq_word]
        self._watch = IdleWatch(watch_ns, clock)
        self._bell = shared.doorbells.handlers[number]
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    def wait(self) -> None:
        """Until the bell rings, or a look without any lock finds something to do.

        The idle bit stays until the bell rings: so there is no need to claim again for every
        backstop, only for what nobody rang for.
        """
        watch, sleep_ms = self._watch, self._sleep_ms()
        watch.begin()
        is_alone, is_held_up = self._came() == 1, sleep_ms < BACKSTOP_MS
        if is_alone and not is_held_up and watch.is_worth_it and watch.sees(self._is_rung):
            return
        while not self._poll.poll(sleep_ms):
            self._q[self._beat] = self._clock()
            if self._something_waits() or self.is_to_end():
                return
            sleep_ms = self._sleep_ms()
        doorbells.clear(self._bell)
        if self._is_rung():
            watch.slept()

    def is_to_end(self) -> bool:
        """Whether this process is to claim no more."""
        return bool(self._q[self._leaving]) or self._phase.reached(Phase.STOPPED)

    def _came(self) -> int:
        """How many calls have come since it was asked last, for any handler."""
        before, self._seq = self._seq, self._q[self._seq_word]
        return self._seq - before

    def _is_rung(self) -> bool:
        return not self._q[self._bit_word] & self._bit

    def _something_waits(self) -> bool:
        opens_ns = self._q[self._next_open]
        return self._claims.waits() or 0 < opens_ns <= self._clock()

    def _sleep_ms(self) -> float:
        opens_ns = self._q[self._next_open]
        if not opens_ns:
            return BACKSTOP_MS
        return min(BACKSTOP_MS, max(0.0, (opens_ns - self._clock()) / 1e6))
