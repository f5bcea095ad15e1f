"""Which level is served next (Hadoop: `WeightedRoundRobinMultiplexer`, HADOOP-9640).

A cursor stays on a level for as many draws as the level has weight, then moves to the next level,
and from the last to the first. The default weights of n levels are 2^(n-1), ..., 2, 1: of any 15
draws of four levels, 8, 4, 2 and 1 fall on levels 0 to 3. Every draw advances the cursor, whether
or not its level had a call.

Differs in three ways. A weight of 0 skips its level (the cursor of Hadoop enters and sticks there
for 2^32 draws); with all weights 0 the cursor rests on level 0. A negative weight is refused. The
default weight of level 0 is 2^31 at 32 levels, and not negative.
"""

from __future__ import annotations

from collections.abc import Sequence

from .conf import Conf
from .errors import BadValue

KEY = "faircallqueue.multiplexer.weights"
_LARGEST_SHIFT = 62  # weights are kept in signed 64-bit words


def default_weights(levels: int) -> list[int]:
    """2^(levels-1), ..., 2, 1."""
    return [1 << min(levels - 1 - level, _LARGEST_SHIFT) for level in range(levels)]


def parse_weights(levels: int, conf: Conf) -> list[int]:
    """The weights of `faircallqueue.multiplexer.weights`, or the default ones; BadValue."""
    weights = conf.integers(KEY) or default_weights(levels)
    if len(weights) != levels:
        raise BadValue(f"{KEY}: {levels} weights expected, not {len(weights)}")
    return weights


def following(level: int, weights: Sequence[int]) -> tuple[int, int]:
    """The cursor (level, draws left) on the next level that has weight, cyclically."""
    for step in range(1, len(weights) + 1):
        candidate = (level + step) % len(weights)
        if weights[candidate] > 0:
            return candidate, weights[candidate]
    return 0, 0


def advance(level: int, left: int, weights: Sequence[int]) -> tuple[int, int]:
    """The cursor after a draw from `level`, which had `left` draws left including this one."""
    return (level, left - 1) if left > 1 else following(level, weights)


class WeightedRoundRobinMultiplexer:
    """The cursor of one queue; `weights` has one entry per level. BadValue."""

    def __init__(self, weights: Sequence[int]) -> None:
        if not weights:
            raise BadValue("a multiplexer needs at least one level")
        if min(weights) < 0:
            raise BadValue(f"{KEY}: negative weight in {list(weights)}")
        self.weights = list(weights)
        self.level, self.left = following(-1, self.weights)

    @classmethod
    def from_conf(cls, levels: int, conf: Conf) -> WeightedRoundRobinMultiplexer:
        """With the weights of the configuration; BadValue, NotParseable."""
        if levels < 1:
            raise BadValue(f"a multiplexer needs at least one level, not {levels}")
        return cls(parse_weights(levels, conf))

    def draw(self) -> int:
        """The level to serve now (Hadoop: getAndAdvanceCurrentIndex)."""
        drawn = self.level
        self.level, self.left = advance(self.level, self.left, self.weights)
        return drawn
