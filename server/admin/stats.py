"""What a port has counted, read from its segment without a lock: looking never slows who works.

Every word is whole when it is read, but words read one after the other may be of different moments:
figures that belong together can differ by the calls that moved meanwhile. Where that would not be
a difference but nonsense (a policy half old and half new, a name in a row that is another's by
now) the reading is checked afterwards, and repeated or left out.

    port        number, addresses, phase, uptime
    queue       what serves: implementation, scheduler, and each level          (`queues`)
    totals      counters since the start, over all processes that there were     (`TOTALS`)
    rates       calls, answers over the last ten seconds                         (`recent`)
    throttle    what each limiter holds and did                             (`throttle`)
    users       the heaviest callers, and all others together              (`stats_users`)
    methods     calls and times; handlers: what each runs                   (`stats_work`)
    processes   who lives, since when, the how-manieth
    segment     memory, slots by state, pages
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...shm.columns import Counter
from ...shm.layout import LARGE_PAGE, SMALL_PAGE
from ...shm.processes import ROLES
from ...shm.shared import Shared
from ...shm.states import Life
from ..groups import groups_of
from .queues import QueueStats
from .recent import Recent
from .throttle import ThrottleStats
from .users import Users
from .work import handlers, methods

if TYPE_CHECKING:
    from ..port import Port

SECOND_NS = 1_000_000_000
NUMBERED = ("reader", "handler")

TOTALS: Mapping[str, int] = {
    "calls": Counter.CALLS,
    "answered": Counter.ANSWERED,
    "run": Counter.RUN,
    "failed": Counter.FAILED,
    "expired": Counter.EXPIRED,
    "cancelled": Counter.CANCELLED,
    "dropped": Counter.DROPPED,
    "late": Counter.LATE,
    "slow": Counter.SLOW,
    "sent_elsewhere": Counter.FAILED_OVER,  # of those refused, told to try another server
    "died": Counter.DIED,
    "requeued": Counter.REQUEUED,
    "reaped": Counter.REAPED,
    "identity_unknown": Counter.IDENTITY_UNKNOWN,
    "in_bytes": Counter.BYTES_IN,
    "out_bytes": Counter.BYTES_OUT,
}
REFUSED: Mapping[str, int] = {
    "queue_full": Counter.REFUSED_QUEUE_FULL,
    "too_many_in_flight": Counter.REFUSED_PRINCIPAL,
    "max_wait": Counter.REFUSED_MAX_WAIT,
    "response_time": Counter.REFUSED_RESPONSE_TIME,
    "throttled": Counter.THROTTLED,
    "invalid": Counter.REFUSED_INVALID,
    "unauthenticated": Counter.CLAIMS_REFUSED,
    "shutting_down": Counter.SHUTTING_DOWN,
}
CONNECTIONS: Mapping[str, int] = {
    "ever": Counter.CONNECTIONS,
    "refused": Counter.REFUSED_CONNECTIONS,
    "closed_slow": Counter.CLOSED_SLOW,
    "closed_protocol": Counter.CLOSED_PROTOCOL,
    "closed_backoff": Counter.CLOSED_BACKOFF,
}
SWEEPS: Mapping[str, int] = {"done": Counter.SWEEPS, "missed": Counter.SWEEPS_MISSED}


class PortStats:
    """One port, as one process sees it; `tick` about every second keeps the rates recent."""

    def __init__(self, port: Port, now_ns: int) -> None:
        self._port, self._shared = port, port.shared
        self.recent = Recent(port.shared, now_ns)
        self._users, self._throttle = Users(port), ThrottleStats(port.shared)
        self._queue = QueueStats(port, self._users)
        names = [group.name for group in groups_of(port.settings)]
        self._groups = names if len(names) > 1 else []

    def tick(self, now_ns: int) -> None:
        self.recent.tick(now_ns)

    def snapshot(self, now_ns: int) -> dict[str, Any]:
        """Everything, as plain JSON values."""
        port, shared = self._port, self._shared
        counted = shared.columns.counters.sum(axis=0).tolist()
        rates = self.recent.rates(now_ns)
        unit = port.settings.rpc.metrics_timeunit
        return {
            "port": port.number,
            "addresses": port.addresses(),
            "phase": shared.phase.get().name,
            "uptime_s": _seconds(now_ns - port.created_ns),
            "queue": self._queue.snapshot(),
            "totals": self._totals(counted),
            "rates": {
                "window_s": _seconds(rates.window_ns),
                "calls_per_s": round(rates.calls_per_s, 1),
                "answered_per_s": round(rates.answered_per_s, 1),
            },
            "throttle": self._throttle.snapshot(now_ns),
            "users": self._users.snapshot(),
            "methods": methods(shared, unit),
            "handlers": handlers(shared, rates.busy, now_ns, self._groups),
            "processes": processes(shared, now_ns),
            "segment": segment(shared),
            "sweeps": _pick(counted, SWEEPS),
        }

    def _totals(self, counted: list[int]) -> dict[str, Any]:
        shared = self._shared
        readers = range(shared.geometry.readers)
        now = sum(shared.row("reader", number)["connections"] for number in readers)
        return {
            **_pick(counted, TOTALS),
            "refused": _pick(counted, REFUSED),
            "connections": {"now": now, **_pick(counted, CONNECTIONS)},
        }


def processes(shared: Shared, now_ns: int) -> list[dict[str, Any]]:
    """Every place that has or had a process; `restarts` counts those before this one."""
    counts = {"reader": shared.geometry.readers, "handler": shared.geometry.handlers}
    found = []
    for role in ROLES:
        for number in range(counts.get(role, 1)):
            row = shared.row(role, number)
            if row["pid"] or (row["incarnation"] and not row["leaving"]):
                found.append(
                    {
                        "role": role,
                        "index": number if role in NUMBERED else None,
                        "pid": row["pid"],
                        "status": Life(row["status"]).name,
                        "age_s": _seconds(now_ns - row["started_ns"]),
                        "restarts": max(0, row["incarnation"] - 1),
                    }
                )
    return found


def segment(shared: Shared) -> dict[str, Any]:
    """The memory that the port's processes share, and how full it is."""
    geometry, layout = shared.geometry, shared.segment.layout
    small, large = shared.pages.free_pages()
    return {
        "bytes": layout.total_bytes,
        "backing": shared.segment.backing,
        "slots": dict(shared.table.recovery.count_states()),
        "pages": [
            {"page_bytes": SMALL_PAGE, "pages": geometry.small_pages, "free": small},
            {"page_bytes": LARGE_PAGE, "pages": geometry.large_pages, "free": large},
        ],
    }


def _pick(counted: list[int], wanted: Mapping[str, int]) -> dict[str, int]:
    return {name: counted[counter] for name, counter in wanted.items()}


def _seconds(ns: int) -> float:
    return round(max(0, ns) / SECOND_NS, 3)
