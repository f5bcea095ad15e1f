"""Which of a client's addresses is in use, and where no connection could be made lately.

The *epoch* counts the moves from one address to the next, so that all who were refused at one
address move on from it once. Time is handed in, in seconds.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from .address import Address
from .errors import RpcClientError
from .retry import goes_elsewhere

GROW_AGAIN_S = 1.0


class Places:
    """Starts with the first address, and after the last comes the first again."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.epoch = 0
        self._addresses = addresses
        self._failures: dict[Address, tuple[float, RpcClientError]] = {}

    def __str__(self) -> str:
        return ", ".join(map(str, self._addresses))

    @property
    def address(self) -> Address:
        """The one in use."""
        return self._addresses[self.epoch % len(self._addresses)]

    def move_on(self, epoch: int) -> None:
        """To the next address, unless another has moved on since `epoch`."""
        if epoch == self.epoch:
            self.epoch += 1

    def fail(self, error: RpcClientError, epoch: int, now: float, *, move: bool) -> None:
        """No connection could be made in `epoch`; `move`: let it be another address, if it may."""
        address = self._addresses[epoch % len(self._addresses)]
        self._failures[address] = now, copy.copy(error)
        if move and goes_elsewhere(error):
            self.move_on(epoch)

    def failure(self, since: float) -> RpcClientError | None:
        """Why no connection to the address in use could be made at `since` or later."""
        at, error = self._failures.get(self.address, (0.0, None))
        return copy.copy(error) if error is not None and at >= since else None

    def may_add(self, in_flight: int, connections: int, most: int, now: float) -> bool:
        """Whether one more connection is worth its while, where the idlest has `in_flight` calls.

        Not for `GROW_AGAIN_S` after one could not be made: the others serve.
        """
        busy = in_flight > 0 and connections < most
        return busy and self.failure(now - GROW_AGAIN_S) is None
