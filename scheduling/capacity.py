"""How much room each level has, and where a call goes that finds its own level full.

Hadoop: `FairCallQueue` (HADOOP-10282), weights by `callqueue.capacity.weights` (HADOOP-17010).
With weights w (all 1 by default) and a total capacity C:

    unit = C // sum(w)      capacity[level] = unit * w[level]      capacity[0] += C % sum(w)

A call overflows downwards: it takes the first level at or below its own that has room, and every
full level that it tried counts one overflow. Nothing ever overflows upwards.

Differs: a level that does not exist is taken for the nearest one, so that a call that was given its
level before a live refresh is neither lost nor an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from .conf import Conf
from .errors import BadValue

KEY = "callqueue.capacity.weights"


def split(capacity: int, levels: int, weights: Sequence[int] | None = None) -> list[int]:
    """The capacity of each level, shape (levels,), all at least 1; BadValue."""
    if levels < 1:
        raise BadValue(f"at least one level is needed, not {levels}")
    parts = list(weights) if weights else [1] * levels
    check_weights(parts, levels)
    unit, rest = divmod(capacity, sum(parts))
    if unit < 1:
        raise BadValue(f"a capacity of {capacity} leaves a level without room: weights {parts}")
    return [unit * part + (rest if level == 0 else 0) for level, part in enumerate(parts)]


def check_weights(weights: Sequence[int], levels: int) -> None:
    """One positive weight per level; BadValue."""
    if len(weights) != levels:
        raise BadValue(f"{KEY}: {levels} weights expected, not {len(weights)}")
    if min(weights) < 1:
        raise BadValue(f"{KEY}: weights must be positive, not {list(weights)}")


def parse_weights(levels: int, conf: Conf) -> list[int]:
    """The weights of `callqueue.capacity.weights`, all 1 by default; BadValue, NotParseable."""
    weights = conf.integers(KEY) or [1] * levels
    check_weights(weights, levels)
    return weights


def nearest_level(level: int, levels: int) -> int:
    """`level` itself if it is one of `levels`, else the nearest."""
    return min(max(level, 0), levels - 1)


def level_with_room(level: int, sizes: Sequence[int], capacities: Sequence[int]) -> int | None:
    """The first level from `level` down that has room; None if there is none."""
    for candidate in range(level, len(sizes)):
        if sizes[candidate] < capacities[candidate]:
            return candidate
    return None
