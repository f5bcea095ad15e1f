"""Whose waits have a histogram of their own: the identities with the highest costs at each sweep.

A place is given to another only when one of the heaviest has none, so that who comes and goes at
the end of the list keeps what was counted. A place names the row and its generation; the row says
which place it has, by one store. A janitor that dies in between leaves a row that names the place
of another, which the next one puts right.
"""

from __future__ import annotations

import numpy as np

from ...scheduling.saturation import Int64s
from ...shm.names import OTHERS
from ...shm.shared import Shared

_LOW = 0xFFFF_FFFF


class Watching:
    """`choose` at each sweep."""

    def __init__(self, shared: Shared) -> None:
        self._names, self._places = shared.names, shared.histograms.watched
        self._watch = shared.names.identities.rows["watch"]

    def choose(self, costs: Int64s) -> None:
        """`costs` are the decayed costs, shape (identities,)."""
        heaviest = self._heaviest(costs)
        free: list[int] = []  # first those that are nobody's, then those of the lightest
        taken: list[tuple[int, int]] = []
        for place, identity in enumerate(self._places.tolist()):
            row = identity & _LOW
            if not identity or self._names.reference(row) != identity:
                free.append(place)
                continue
            self._watch[row] = place + 1
            if row in heaviest:
                heaviest.remove(row)
            else:
                taken.append((int(costs[row]), place))
        free += [place for _, place in sorted(taken)]
        for row, place in zip(heaviest, free, strict=False):
            self._give(row, place)

    def _heaviest(self, costs: Int64s) -> list[int]:
        """As many rows as there are places, the highest cost first; none without any cost."""
        costs = costs.copy()
        costs[OTHERS] = 0
        order = np.argsort(-costs, kind="stable")[: len(self._places)]
        rows: list[int] = order[costs[order] > 0].tolist()
        return rows

    def _give(self, row: int, place: int) -> None:
        before = int(self._places[place]) & _LOW
        if self._watch[before] == place + 1:
            self._watch[before] = 0
        self._places[place] = self._names.reference(row)
        self._watch[row] = place + 1
