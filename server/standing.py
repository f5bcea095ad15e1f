"""Why a caller has the level that it has, and when that gets better: the scheduler's arithmetic.

The admin process explains it of anybody, a reader to the caller itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..scheduling.decay import level_of
from ..scheduling.level_forecast import levels_if_idle, sweeps_until_better
from ..scheduling.saturation import saturating_sum
from .port import FIFO, HISTORY, service_users
from .user_rows import UserRows

if TYPE_CHECKING:
    from .config import PortSettings

DECAY = "DecayRpcScheduler"
SHOWN_LEVELS = 20  # of the sweeps to come


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRules:
    """What levels follow from; `thresholds` are shares of the cost where the scheduler decays."""

    queue: str = "FairCallQueue"
    scheduler: str = DECAY
    thresholds: tuple[float, ...] = ()
    factor: float = 0.5
    period_ms: int = 5000
    service_users: frozenset[str] = frozenset()
    reserved_users: frozenset[str] = frozenset()
    reserved_methods: frozenset[str] = frozenset()


def level_rules(ipc: PortSettings) -> LevelRules:
    """Those in force at a port."""
    history = ipc.scheduler.impl == HISTORY
    thresholds = ipc.history_scheduler.thresholds if history else ipc.decay_scheduler.thresholds
    return LevelRules(
        queue=ipc.callqueue.impl,
        scheduler=ipc.scheduler.impl,
        thresholds=tuple(thresholds),
        factor=ipc.decay_scheduler.decay_factor,
        period_ms=ipc.decay_scheduler.period_ms,
        service_users=frozenset(service_users(ipc)),
        reserved_users=frozenset(ipc.scheduler.reserved_users),
        reserved_methods=frozenset(ipc.scheduler.reserved_methods),
    )


def standing(rules: LevelRules, rows: UserRows, row: int, name: str) -> dict[str, Any]:
    """The caller `name`, which has that row.

    level, share     as the last sweep decided; of the decayed cost of all ordinary users now
    level_by_cost    what its share would give it now
    decayed, swept   its cost, decayed: now, and as of the last sweep
    total            what the costs of all ordinary users sum to
    thresholds       shares at which levels 1, 2, ... begin
    why              a sentence
    if_idle          what sweeps would find if it stopped now and the others went on; None
                     where that does not decide
    """
    cost, level, ordinary = int(rows.decayed[row]), int(rows.level[row]), bool(rows.ordinary[row])
    decides = rules.queue != FIFO and rules.scheduler == DECAY and ordinary
    by_cost = level_of(cost, rows.total, rules.thresholds) if decides else level
    return {
        "level": level,
        "share": rows.share(cost) if ordinary else None,
        "level_by_cost": by_cost,
        "decayed": cost,
        "swept": int(rows.swept[row]),
        "total": rows.total,
        "thresholds": list(rules.thresholds),
        "why": _why(rules, rows, name, cost, level, by_cost),
        "if_idle": _if_idle(rules, rows, row, level) if decides else None,
    }


def _why(rules: LevelRules, rows: UserRows, name: str, cost: int, level: int, by_cost: int) -> str:
    if rules.queue == FIFO:
        return f"{rules.queue} has one level: calls go in order of arrival"
    if name in rules.service_users:
        return "a service user: it is level 0 whatever it costs, and has no share"
    if name in rules.reserved_users:
        return "a reserved user: its calls go before all levels, in a lane of their own"
    if rules.scheduler != DECAY:
        return f"{rules.scheduler} decides by its own rule, not by shares of the cost"
    share = cost / rows.total if rows.total else 0.0
    why = f"{share:.1%} of the cost is {_reached(share, rules.thresholds)}"
    if by_cost != level:
        why += f"; level {level} is that of the last sweep"
        if level > by_cost:
            why += ", or of what a caller that has just begun asked for lately"
    return why


def _reached(share: float, thresholds: Sequence[float]) -> str:
    """Between which thresholds a share lies."""
    level = next(
        (number for number in range(len(thresholds), 0, -1) if share >= thresholds[number - 1]), 0
    )
    if not level:
        if not thresholds:
            return "of level 0, the only one"
        return f"under the {thresholds[0]:.1%} at which level 1 begins"
    text = f"at least the {thresholds[level - 1]:.1%} at which level {level} begins"
    if level < len(thresholds):
        text += f", and under the {thresholds[level]:.1%} of level {level + 1}"
    return text


def _if_idle(rules: LevelRules, rows: UserRows, row: int, level: int) -> dict[str, Any]:
    cost = int(rows.decayed[row])
    swept = saturating_sum(rows.swept[rows.ordinary]) - int(rows.swept[row])
    others = max(swept, int((rows.total - cost) * rules.factor), 0)
    levels = levels_if_idle(cost, others, rules.thresholds, rules.factor)
    return {
        "sweeps_until_better": sweeps_until_better(levels, level),
        "sweeps_until_level_0": len(levels) if levels and level else 0 if not level else None,
        "period_ms": rules.period_ms,
        "levels": levels[:SHOWN_LEVELS],
    }
