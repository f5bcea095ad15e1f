"""The queue of a port, read without a lock: each level with its mean response time.

Where there are several groups of handlers the levels are told for all of them together, as callers
have one level whatever they call, and then what waits in each group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...scheduling.latencies import Histogram
from ...scheduling.units import TimeUnit
from ...shm.draws import LANE_NAMES
from ...shm.layout import CLASSES, LEVEL, MAX_LEVELS
from ...shm.policy import WHOLE, QueuePolicy
from ...shm.shared import Shared
from ..groups import Group, groups_of
from .users import Users
from .work import SUFFIXES

if TYPE_CHECKING:
    from ..port import Port

QUANTILES = {"p50": 0.5, "p99": 0.99}  # over all calls since the start
READ_AT_MOST = 100  # attempts at a policy that is being changed

Counts = npt.NDArray[np.uint64]


class QueueStats:
    """That of one port, as one process sees it."""

    def __init__(self, port: Port, users: Users) -> None:
        self._port, self._shared, self._users = port, port.shared, users
        segment = self._shared.segment
        self._levels = segment.records(LEVEL, segment.layout.level_words, MAX_LEVELS)
        self._unit = TimeUnit[port.settings.rpc.metrics_timeunit]

    def snapshot(self) -> dict[str, Any]:
        """What serves, each lane, each level, and each group if there are several."""
        ipc, shared, table = self._port.ipc, self._shared, self._shared.table
        policy, groups = policy_in_force(shared), groups_of(self._port.settings)
        by_ring = Rings(shared)
        found: dict[str, Any] = {
            "impl": ipc.callqueue.impl,
            "scheduler": ipc.scheduler.impl,
            "cost_provider": ipc.scheduler.cost_provider,
            "in_turn": policy.in_turn,
            "backoff": policy.backoff,
            "waiting": table.waiting(),
            "held": shared.segment.q[table.held.held_word],
            "drawn": sum(shared.segment.q[draws.drawn_word] for draws in table.group_draws),
            "lanes": self._lanes(policy, by_ring.waiting.sum(axis=0)),
            "levels": self._by_level(policy, by_ring, len(groups)),
        }
        if len(groups) > 1:
            found["groups"] = [
                self._group(number, group, policy, by_ring) for number, group in enumerate(groups)
            ]
        return found

    def _lanes(self, policy: QueuePolicy, waiting: Counts) -> list[dict[str, Any]]:
        lanes = waiting[self._shared.geometry.levels :]
        return [
            {
                "lane": name,
                "max_share": policy.lane_shares[lane] / WHOLE,
                "waiting": int(lanes[lane]),
            }
            for lane, name in enumerate(LANE_NAMES)
            if policy.lane_shares[lane] or lanes[lane]
        ]

    def _by_level(self, policy: QueuePolicy, rings: Rings, groups: int) -> list[dict[str, Any]]:
        callers = self._users.per_level(policy.levels)
        means, suffix = self._levels["mean_ns"].copy().view(np.float64), SUFFIXES[self._unit]
        histograms = self._shared.histograms
        waits, latencies = histograms.wait().levels, histograms.latency().levels
        return [
            {
                "level": level,
                "weight": policy.weights[level],
                "capacity": sum(policy.rooms[level::MAX_LEVELS][:groups]),
                "waiting": int(rings.waiting[:, level].sum()),
                "held": int(rings.held[:, level].sum()),
                "overflowed": int(rings.overflowed[:, level].sum()),
                "callers": callers[level],
                f"mean_response_{suffix}": round(float(means[level]) / self._unit, 3),
                "responses": int(self._levels["count"][level]),
                **_quantiles("wait", waits[level], self._unit),
                **_quantiles("latency", latencies[level], self._unit),
                "backs_off": bool(self._levels["backs_off"][level]),
            }
            for level in range(policy.levels)
        ]

    def _group(
        self, number: int, group: Group, policy: QueuePolicy, rings: Rings
    ) -> dict[str, Any]:
        """One group of handlers, and what waits for it, by level."""
        shared, levels = self._shared, range(policy.levels)
        q, table = shared.segment.q, shared.table
        handlers = [shared.row("handler", h) for h in shared.geometry.handlers_of(number)]
        return {
            "group": group.name,
            "methods": list(group.patterns),
            "handlers": shared.working_of(number),
            "express": shared.express_of(number),
            "running": sum(bool(row["current"]) for row in handlers if not row.is_vacant),
            "capacity": sum(policy.rooms[number * MAX_LEVELS + level] for level in levels),
            "waiting": q[table.waiting_words[number]],
            "held": int(rings.held[number].sum()),
            "overflowed": int(rings.overflowed[number].sum()),
            "drawn": q[table.group_draws[number].drawn_word],
            "waiting_by_level": [int(rings.waiting[number, level]) for level in levels],
        }


class Rings:
    """Figures of all rings at this moment: shape (groups, MAX_LEVELS) each."""

    def __init__(self, shared: Shared) -> None:
        segment, layout = shared.segment, shared.segment.layout
        count = shared.geometry.ring_numbers
        self.by_class = (
            segment.words(layout.level_waiting, count * CLASSES)
            .copy()
            .reshape(-1, MAX_LEVELS, CLASSES)
        )
        self.waiting: Counts = self.by_class.sum(axis=2)
        self.held, self.overflowed, self.turns = (
            segment.words(at, count).copy().reshape(-1, MAX_LEVELS)
            for at in (layout.level_held, layout.overflowed, layout.level_turns)
        )


def policy_in_force(shared: Shared) -> QueuePolicy:
    """The queue's policy, without the queue lock.

    The block in force is not written as long as it is in force: who reads the same version before
    and after has read one policy. RuntimeError if it changed all the time.
    """
    q, blocks = shared.segment.q, shared.table.blocks
    for _ in range(READ_AT_MOST):
        version = q[blocks.version_word]
        try:
            policy = blocks.read(version)
        except ValueError:  # a mixture of two
            continue
        if q[blocks.version_word] == version:
            return policy
    raise RuntimeError(f"the policy changed {READ_AT_MOST} times while it was read")


def _quantiles(measure: str, times: Histogram, unit: TimeUnit) -> dict[str, float | None]:
    """Half of the times, and all but one in a hundred, are under these."""
    found = {name: times.quantile(share) for name, share in QUANTILES.items()}
    return {
        f"{measure}_{name}_{SUFFIXES[unit]}": None if ns is None else round(ns / unit, 3)
        for name, ns in found.items()
    }
