"""In-turn service within a level: identities in turn, first in first out within one.

    turn = min(max(level's turn, identity's last turn + 1), level's turn + T - 1)

An identity gets one turn per call, beginning with the turn now served; so the n-th waiting call of
a flood is n turns away, and a newcomer's first call is served after at most one call of each other
identity. `T` bounds how far ahead turns reach (a ring of T chains in shared memory); a call beyond
it joins the last chain. Start-time fair queueing with unit costs; Hadoop has nothing like it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

DEFAULT_WINDOW = 1024


class Queued(Protocol):
    """A call as queues see it."""

    @property
    def level(self) -> int:
        """The level that the scheduler gave it."""

    @property
    def identity(self) -> Hashable:
        """Who is charged for it."""


C = TypeVar("C", bound=Queued)


def turn_of(level_turn: int, last_turn: int | None, window: int) -> int:
    """The turn for a new call of an identity whose last call got `last_turn` (None: no call)."""
    following = level_turn if last_turn is None else last_turn + 1
    return min(max(level_turn, following), level_turn + window - 1)


class TurnQueue(Generic[C]):
    """The waiting calls of one level, in (turn, arrival) order."""

    def __init__(self, window: int = DEFAULT_WINDOW) -> None:
        self.turn = 0
        self._window = window
        self._chains: dict[int, deque[C]] = {}
        self._last_turn: dict[Hashable, int] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, call: C) -> None:
        """The call waits behind those of its turn."""
        turn = turn_of(self.turn, self._last_turn.get(call.identity), self._window)
        self._last_turn[call.identity] = turn
        self._chains.setdefault(turn, deque()).append(call)
        self._size += 1

    def first(self) -> C:
        """The call that is served next; IndexError if there is none."""
        if not self._chains:
            raise IndexError("no call waits")
        return self._chains[min(self._chains)][0]

    def popleft(self) -> C:
        """Takes the call that is served next; IndexError if there is none."""
        call = self.first()
        self.turn = min(self._chains)
        chain = self._chains[self.turn]
        chain.popleft()
        self._size -= 1
        if not chain:
            self._forget(self.turn)
        return call

    def _forget(self, turn: int) -> None:
        del self._chains[turn]
        if not self._chains:
            self._last_turn.clear()


class ArrivalQueue(Generic[C]):
    """The waiting calls of one level in order of arrival, as Hadoop serves them."""

    def __init__(self) -> None:
        self._calls: deque[C] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    def append(self, call: C) -> None:
        """The call waits behind all others."""
        self._calls.append(call)

    def first(self) -> C:
        """The call that is served next; IndexError if there is none."""
        return self._calls[0]

    def popleft(self) -> C:
        """Takes the call that is served next; IndexError if there is none."""
        return self._calls.popleft()
