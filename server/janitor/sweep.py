"""The janitor's sweep: costs decay, levels and mean response times are published, idle rows go.
Between sweeps, identities that the last one did not find are given levels (`unswept`).

    decayed' = trunc((decayed + charged - seen) * factor)    seen' = charged    (scheduling.decay)
               never below 0: where a call cost less than was reserved, what is taken back may be
               more than decay has left of it
    level    = by its share of all ordinary identities' decayed cost; service users are level 0, or
               in a lane of their own (`shm.draws`)

Every word written here has the janitor as its only writer, but for a row that a reader makes at the
same moment: that one is free of costs, so what is written is what it has. A janitor that is killed
between two of the stores makes the next sweep count the charges of one period twice, for all alike.

When the last sweep was due is kept in the segment, so that a successor goes on in the same beat,
and another period begins there. One that comes late is done once; the rest count as missed.

A reload may change everything here but what was charged and what is owed: costs decay whichever
scheduler decides, so levels follow from the same history before and after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...scheduling import decay
from ...scheduling.saturation import Int64s, saturating_sum
from ...shm.columns import Counter
from ...shm.draws import SERVICE
from ...shm.layout import SHARD
from ..port import lane_shares
from .eviction import Eviction
from .history_levels import HistoryLevels
from .level_times import LevelTimes
from .own_levels import OwnLevels
from .strangers import Charged, Strangers
from .unswept import UnsweptLevels
from .watching import Watching

if TYPE_CHECKING:
    from ..port import Port

DECAY, HISTORY = "DecayRpcScheduler", "HistoryRpcScheduler"
FOLLOW_NS = 100_000_000  # how often the history of calls is looked at


class Sweep:
    """`tick` does what is due. Arrays have one element per identity row, shape (identities,)."""

    def __init__(self, port: Port) -> None:
        shared = port.shared
        self._port, self._q = port, shared.segment.q
        self._names, self._columns = shared.names, shared.columns
        self._rows, self._lane0 = shared.names.identities.rows, shared.geometry.levels
        self._index = shared.index("janitor")
        self._started_ns = port.created_ns
        self._swept = shared.segment.word(shared.segment.layout.shard, SHARD, "swept_ns")
        self._followed_ns = 0
        history = port.ipc.history_scheduler
        self._history = HistoryLevels(
            shared.geometry.identities, history.history_length, history.thresholds
        )
        self._unswept, self._own = UnsweptLevels(shared), OwnLevels(shared)
        self._strangers = Strangers(shared)
        self._eviction = Eviction(shared, 0)
        self._watching = Watching(shared)
        self._responses = LevelTimes(shared)
        self._configure()

    def _configure(self) -> None:
        ipc = self._port.ipc
        self._decides = ipc.scheduler.impl == DECAY
        self._follows = ipc.scheduler.impl == HISTORY
        self._cautious = ipc.callqueue.in_turn and ipc.callqueue.newcomer_calls > 0
        self._is_own = self._own.configure(ipc)
        self._settings, history = ipc.decay_scheduler, ipc.history_scheduler
        self._period_ns = ipc.decay_scheduler.period_ms * 1_000_000
        self._service_users = (
            history.service_users if self._follows else self._settings.service_users
        )
        self._history.configure(history.history_length, history.thresholds)
        self._eviction.configure(self._period_ns)
        self._responses.configure(self._settings, self._decides)

    def refresh(self) -> None:
        """Go by the port's settings as they are now, and publish the levels that follow at once."""
        followed = self._follows
        self._configure()
        if followed != self._follows:
            self._history.begin()
        if self._decides:
            self._publish(self._rows["decayed"].astype(np.int64))
            self._unswept.look_next()
            self._meet_strangers()
        elif self._is_own:
            calls, costs = self._own.count(swept=False), self._rows["decayed"].astype(np.int64)
            self._own.publish(costs, calls, self._service_rows())
        else:
            self._rows["level"] = self._history.levels()
        self._place_service_users()

    def tick(self, now_ns: int) -> bool:
        """Whether a sweep was due, and done."""
        if self._follows:
            self._followed_ns = now_ns
            self._follow_history()
        due = self.due(now_ns)
        if due > 0:
            self._sweep(now_ns, due)
        if not self._decides:
            self._strangers.meet_all()
        elif self._unswept.tick(
            now_ns, self._settings.thresholds, self._service_rows, cautious=self._cautious
        ):
            self._meet_strangers(self._unswept.charged)
        elif due > 0:
            self._meet_strangers()
        self._place_service_users()
        return due > 0

    def _sweep(self, now_ns: int, due: int) -> None:
        self._q[self._swept] = self._last_ns() + due * self._period_ns
        costs, calls = self._fold(), self._own.count(swept=True)
        if self._decides:
            self._publish(costs)
        elif self._is_own:
            self._own.publish(costs, calls, self._service_rows())
            self._place_service_users()
        self._columns.add(self._index, Counter.SWEEPS)  # <- costs and levels are those of this one
        self._columns.add(self._index, Counter.SWEEPS_MISSED, due - 1)
        self._responses.fold()
        self._eviction.tick(now_ns, keep=self._history.counts > 0)
        self._watching.choose(costs)

    def due(self, now_ns: int) -> int:
        """How many periods have passed without a sweep."""
        return (now_ns - self._last_ns()) // self._period_ns

    def next_ns(self) -> int:
        """When `tick` has something to do."""
        sweep_ns = self.next_sweep_ns()
        if self._follows:
            return min(sweep_ns, self._followed_ns + FOLLOW_NS)
        look_ns = self._unswept.next_ns() if self._decides else None
        return sweep_ns if look_ns is None else min(sweep_ns, look_ns)

    def next_sweep_ns(self) -> int:
        """When the next sweep is due."""
        return self._last_ns() + self._period_ns

    def _last_ns(self) -> int:
        """When the last sweep was due; before the first, when the server was made."""
        return self._q[self._swept] or self._started_ns

    def _fold(self) -> Int64s:
        """Decay all costs; returns the new ones."""
        rows, seen = self._rows, self._rows["seen"].copy()
        charged = self._columns.cost_totals()
        before = rows["decayed"].astype(np.int64)
        costs = np.maximum(decay.sweep(charged, seen, before, self._settings.decay_factor), 0)
        self._unswept.swept((before == 0) & (charged != seen) & self._cautious)
        rows["raw"] += charged - seen
        rows["decayed"] = costs.view(np.uint64)
        rows["seen"] = charged
        return costs

    def _publish(self, costs: Int64s) -> None:
        """One store per identity: its level from now on."""
        service = self._service_rows()
        ordinary = np.ones(len(costs), bool)
        ordinary[service] = False
        total = saturating_sum(costs[ordinary])
        levels = decay.levels_of(costs, total, self._settings.thresholds)
        levels[service] = 0
        published = levels.copy()
        published[service] = self._service_level()
        self._rows["level"] = published
        self._unswept.begin(levels)

    def _meet_strangers(self, charged: Charged | None = None) -> None:
        """After levels were published; `charged` is what costs sum to, if this was a look."""
        look = charged is not None
        totals = self._columns.cost_totals() if charged is None else charged
        self._strangers.meet(totals, self._service_rows(), cautious=self._cautious, look=look)

    def _service_level(self) -> int:
        """Of service users: 0; or, where their share of the draws is bounded, a lane."""
        return self._lane0 + SERVICE if lane_shares(self._port.ipc)[SERVICE] else 0

    def _place_service_users(self) -> None:
        """Where others than `_publish` put them on level 0."""
        if level := self._service_level():
            for row in self._service_rows():
                self._rows["level"][row] = level

    def _follow_history(self) -> None:
        called = self._columns.call_totals()
        levels = self._history.follow(called, self._service_rows())
        if levels is not None:
            self._rows["level"] = levels
            self._place_service_users()

    def _service_rows(self) -> list[int]:
        """The rows of the service users that have one."""
        rows = (self._names.identities.find(name) for name in self._service_users)
        return [row for row in rows if row >= 0]
