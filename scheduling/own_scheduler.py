"""An operator's own scheduler: a pure class that gives all identities their levels at each sweep.

    class Flat:
        def levels(self, costs, calls, names):
            return costs > 10 * numpy.median(costs)      # level 1 for who costs far more than most

    costs   decayed costs right after the sweep, int64, shape (identities,), never below 0
    calls   calls since the sweep before, int64, shape (identities,)
    names   the identities, in the same order: there is one row for each that is known
    answer  a level for each, integers or truths, shape (identities,): one below 0 acts as 0, one
            above the last level as the last

The arrays are copies. It is made once, by the first of these that it has: `from_conf(conf)`, with a
`Conf` of the keys of its port, `Class(levels)`, `Class()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .components import build, class_named
from .conf import Conf
from .errors import BadValue, NotBuilt, UnknownClass
from .saturation import Int64s


class LevelScheduler(Protocol):
    """Whatever has this method."""

    def levels(self, costs: Int64s, calls: Int64s, names: Sequence[str]) -> npt.ArrayLike:
        """The levels of all identities until the next sweep, shape (identities,)."""


def level_scheduler(name: str, levels: int, conf: Conf) -> LevelScheduler:
    """The class `name`, `module:Class`, made for so many levels; NotBuilt, or what it raises."""
    try:
        found = class_named(name, {})
    except UnknownClass as error:
        raise NotBuilt(str(error)) from error
    if not callable(getattr(found, "levels", None)):
        raise NotBuilt(f"{name} has no method levels()")
    made: LevelScheduler = build(found, levels, conf)  # type: ignore[assignment]
    return made


def within(answer: npt.ArrayLike, count: int, levels: int) -> Int64s:
    """The answer of a scheduler for `count` identities, clamped to the `levels`; BadValue."""
    given = np.asarray(answer)
    if given.shape != (count,) or given.dtype.kind not in "iub":
        raise BadValue(
            f"levels() must give {count} integers, not an array of {given.dtype}, {given.shape}"
        )
    clamped: Int64s = np.clip(given, 0, levels - 1).astype(np.int64)
    return clamped
