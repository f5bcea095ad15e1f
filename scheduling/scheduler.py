"""What a scheduler is to the rest (Hadoop: `RpcScheduler`), and the one that does nothing.

Differs: a scheduler hears of a call when it arrives as well as when it completes, so that costs
known beforehand need not wait for the calls of a flood to finish.
"""

from __future__ import annotations

from typing import Protocol

from .cost import PhaseTimes
from .identity import Caller


class RpcScheduler(Protocol):
    """Gives calls their level and decides on back-off; time and calls are reported to it."""

    def level_of(self, caller: Caller) -> int:
        """The level for a new call of `caller`; 0 is served most."""

    def backs_off(self, level: int) -> bool:
        """Whether a new call of `level` is to be refused, however much room there is."""

    def arrive(self, caller: Caller, expected_cost: int = 0) -> int:
        """A call arrived, accepted or not. The cost charged for it now, to hand to `complete`."""

    def complete(self, caller: Caller, level: int, times: PhaseTimes, charged: int = 0) -> None:
        """A call that had `level`, and for which `charged` was charged on arrival, has ended."""

    def sweep(self) -> None:
        """One period has passed."""


class DefaultRpcScheduler:
    """Everything is level 0 and nothing backs off (Hadoop's default; FIFO's companion)."""

    def level_of(self, caller: Caller) -> int:
        return 0

    def backs_off(self, level: int) -> bool:
        return False

    def arrive(self, caller: Caller, expected_cost: int = 0) -> int:
        return 0

    def complete(self, caller: Caller, level: int, times: PhaseTimes, charged: int = 0) -> None:
        return None

    def sweep(self) -> None:
        return None
