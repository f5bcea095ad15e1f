"""The end of a reader: its clients are told, and no connection is reset.

    turn away   calls that have not begun are refused as those that come now: -32052
    answer      what has arrived, and what comes until it is still: -32052
    part        nothing more is said: the writing side of each connection is shut down
    linger      what clients send meanwhile is read and dropped, until they have ended as well

A process that ends with input unread resets the connection, and the reset may overtake what was
said last: the client would not know whether its call ran. Calls that run get no answer any more.
"""

from __future__ import annotations

from collections.abc import Callable

from .clients import Clients
from .sources import Events
from .withdrawals import Withdrawals

STILL_MS = 50  # without a word from any client, each of the last two steps is over
MOST_NS = 300_000_000  # for each of them, however much is said


class Ending:
    """`step(events)` is a pass of the reader, which refuses new calls by now."""

    def __init__(
        self,
        clients: Clients,
        withdrawals: Withdrawals,
        poll: Callable[[float], Events],
        step: Callable[[Events], int],
        clock: Callable[[], int],
    ) -> None:
        self._clients, self._withdrawals = clients, withdrawals
        self._poll, self._step, self._clock = poll, step, clock

    def run(self) -> None:
        """Returns at once if there are no connections, and soon if they say nothing."""
        self._withdrawals.turn_away()
        self._step([])  # takes what is on its way from the acceptor only with the next events
        self._until_still()
        self._clients.part(self._clock())
        self._until_still()

    def _until_still(self) -> None:
        until_ns = self._clock() + MOST_NS
        while self._clock() < until_ns:
            ready = bool(self._clients.ready)
            events = self._poll(0 if ready or not self._clients.by_fd else STILL_MS / 1000)
            if not events and not ready:
                return
            self._step(events)
