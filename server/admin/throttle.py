"""What the limiters of a port did and will do: its part of `faircall stats`.

    limiter       what it limits: `method resize`, `caller ann of resize`
    used, limit   calls of this period; debt: what is overdrawn, per dimension
    held          calls that wait for it now, held_total_s what those it let go had waited together
    opens_in_s    until it lets the next call through; None: blocked for good
    by_...        how often a call was held because of its calls, bytes, handler time, running
                  calls, or behind another of its key; refused: as it opens too late for the call

Those that hold calls come first, then those that did something most often.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...scheduling import dispatch_rate as rate
from ...shm import limiter_counters as words
from ...shm.shared import Shared
from ...shm.terms import BYTES, CALLS, EACH, HANDLER, KIND_SHIFT, REASONS, Kind
from ..limits import Key, Limits

MOST_ROWS = 20
SECOND_NS = 1_000_000_000


class ThrottleStats:
    """Of one port."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._limiters = shared, shared.table.limiters
        self._limits: Limits | None = None

    def snapshot(self, now_ns: int) -> list[dict[str, Any]]:
        """A row for each limiter, at most MOST_ROWS; [] while nothing is throttled."""
        limits = self.in_force()
        if limits is None:
            return []
        rows = self._limiters.rows
        used = np.flatnonzero((rows[:, words.L_KEY] > 0) & ~_only_counts(rows))
        events = rows[used, words.L_EVENTS : words.L_EVENTS + len(REASONS)].sum(axis=1)
        order = np.lexsort((used, -events.astype(np.int64), -rows[used, words.L_HELD].astype(int)))
        return [self.figures(limits, int(row), now_ns) for row in used[order][:MOST_ROWS]]

    def in_force(self) -> Limits | None:
        """The rates in force; None: there never was one."""
        version, text = self._shared.rates.read()
        if version and (self._limits is None or self._limits.version != version):
            self._limits = Limits(self._shared.names, version, text)
        return self._limits if version else None

    def limiter(self, row: int) -> str | None:
        """What the limiter in `row` limits; None while nothing is throttled."""
        limits = self.in_force()
        if limits is None:
            return None
        key = Key(*self._limiters.rows[row, [words.L_KEY, words.L_CALLER]].tolist())
        return limits.describe(key, self._caller(key.caller))

    def figures(self, limits: Limits, row: int, now_ns: int) -> dict[str, Any]:
        """What one limiter did and will do."""
        one = self._limiters.rows[row].tolist()
        key = Key(one[words.L_KEY], one[words.L_CALLER])
        used, limit = self._used(one, now_ns), [one[words.L_LIMIT + d] - 1 for d in EACH]
        debt = [max(0, used[d] - limit[d]) if limit[d] >= 0 else 0 for d in EACH]
        opens_ns = one[words.L_OPENS]
        blocked = opens_ns >= rate.NEVER_NS
        return {
            "limiter": limits.describe(key, self._caller(key.caller)),
            "used": used[CALLS],
            "limit": limit[CALLS] if limit[CALLS] >= 0 else None,
            "debt": debt[CALLS],
            "debt_bytes": debt[BYTES],
            "debt_handler_s": debt[HANDLER] / 1e6,
            "running": one[words.L_RUNNING],
            "held": one[words.L_HELD],
            "held_total_s": round(one[words.L_HELD_NS] / SECOND_NS, 3),
            "opens_in_s": None if blocked else round(max(0, opens_ns - now_ns) / SECOND_NS, 3),
            **{
                reason if reason == "refused" else f"{reason}_holds": one[words.L_EVENTS + number]
                for number, reason in enumerate(REASONS)
            },
        }

    def _used(self, one: list[int], now_ns: int) -> list[int]:
        period_ns = one[words.L_PERIOD]
        found = []
        for d in EACH:
            word, limit = one[words.L_USED + d], one[words.L_LIMIT + d] - 1
            if period_ns and limit >= 0:
                word = rate.renewed(word, now_ns // period_ns, limit)
            found.append(rate.used_of(word) if limit >= 0 else 0)
        return found

    def _caller(self, hashed: int) -> str | None:
        """The name of a caller that has a row of its own."""
        names = self._shared.names.identities
        if not hashed:
            return None
        found = np.flatnonzero(names.rows["hash"] == hashed)
        return names.name(int(found[0])) if len(found) else None


def _only_counts(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which rows are there for the backlog of a caller alone, limit nothing and never did."""
    kinds = rows[:, words.L_KEY] >> np.uint64(KIND_SHIFT)
    limits = rows[:, words.L_LIMIT : words.L_LIMIT + len(EACH)].any(axis=1)
    did = rows[:, words.L_EVENTS : words.L_EVENTS + len(REASONS)].any(axis=1)
    of_callers = (kinds == Kind.PAIR) | (kinds == Kind.OTHERS)
    rest: npt.NDArray[np.bool_] = of_callers & ~(limits | did | (rows[:, words.L_CAP] > 0))
    return rest
