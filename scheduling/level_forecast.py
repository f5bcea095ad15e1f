"""Which levels an identity has at the next sweeps, if it stops now and the others go on.

    cost'   = trunc(cost * factor)                      at each sweep   (`decay`)
    level   = level_of(cost', cost' + others)

`others` is what all others' costs sum to after a sweep. Who is alone has the lowest level until
nothing is left of its cost: a share is a part of what there is.
"""

from __future__ import annotations

from collections.abc import Sequence

from .decay import level_of

MOST_SWEEPS = 1000


def levels_if_idle(cost: int, others: int, thresholds: Sequence[float], factor: float) -> list[int]:
    """The level after each sweep, up to the first 0; [] if that does not come in MOST_SWEEPS."""
    levels = []
    for _ in range(MOST_SWEEPS):
        cost = int(cost * factor)
        levels.append(level_of(cost, cost + others, thresholds))
        if not levels[-1]:
            return levels
    return []


def sweeps_until_better(levels: Sequence[int], level: int) -> int | None:
    """How many of those sweeps until the level is better (lower) than `level`; None: it is not."""
    better = (number for number, after in enumerate(levels, 1) if after < level)
    return next(better, None)
