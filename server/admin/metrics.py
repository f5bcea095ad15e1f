"""`/metrics`: what `faircall stats` counts, and the histograms, as samples of `metrics_table`.

Counters are sums over all processes that there ever were, so they grow whatever dies; those of a
user or of a caller's limiter are forgotten with their row. How many series there are is bounded:
methods by `METHOD_HISTOGRAMS`, users by `decay-scheduler.metrics.top.user.count` and
`limits.watched-users`, limiters by `throttle.MOST_ROWS`.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...shm.columns import Counter
from ...shm.layout import METHOD_HISTOGRAMS
from ...shm.states import Phase
from . import metrics_table as t
from .alarms import Alarms
from .http_routes import Routes
from .http_wire import ACCEPT, HttpAnswer, HttpRequest
from .openmetrics import OPENMETRICS, PLAIN, Metric, Sample, Value, exposition, wants_openmetrics
from .process_usage import ProcessUsage
from .stats import PortStats

if TYPE_CHECKING:
    from ..port import Port

BACKOFF_REASONS = ("queue_full", "too_many_in_flight", "max_wait", "response_time", "throttled")
Row = Mapping[str, Any]
Found = tuple[Metric, Sequence[object], Value]


class Metrics:
    """Of all ports; `stats` are those that `faircall stats` shows, in the order of `ports`."""

    def __init__(
        self, ports: Sequence[Port], stats: Sequence[PortStats], alarms: Alarms | None = None
    ) -> None:
        self._ports, self._stats, self._alarms = ports, stats, alarms
        self._usage = ProcessUsage()

    def tick(self) -> None:
        """Often enough that little of a dying process's time is missed."""
        for port in self._ports:
            self._usage.look(port)

    def routes(self) -> Routes:
        return {("GET", "/metrics"): self._scrape}

    def _scrape(self, request: HttpRequest) -> HttpAnswer:
        openmetrics = wants_openmetrics(request.header(ACCEPT))
        return HttpAnswer(
            body=self.text(openmetrics), content_type=OPENMETRICS if openmetrics else PLAIN
        )

    def text(self, openmetrics: bool) -> bytes:
        """Everything, as it is now."""
        families: dict[Metric, list[Sample]] = {metric: [] for metric in t.METRICS}
        now_ns = time.monotonic_ns()
        self.tick()
        for port, stats in zip(self._ports, self._stats, strict=True):
            for metric, values, value in self._of_port(port, stats.snapshot(now_ns)):
                families[metric].append((values, value))
        for metric, values, value in _of_server(self._ports[0], now_ns):
            families[metric].append((values, value))
        for number, rule, active, raised in self._alarms.counts() if self._alarms else ():
            families[t.ALARM].append(((number, rule.value), int(active)))
            families[t.ALARMS].append(((number, rule.value), raised))
        return exposition(families.items(), openmetrics)

    def _of_port(self, port: Port, found: Row) -> Iterator[Found]:
        """`found` is the snapshot of `port`."""
        number = port.number
        yield from _times(port, found)
        yield from _calls(number, found)
        yield from _queue(number, found["queue"])
        yield from _limiters(number, found["throttle"])
        yield from _users(port, found["users"])
        yield from _processes(port, found)
        yield from self._usage.samples(port)
        yield from _connections(number, found["totals"])
        yield from _memory(number, found["segment"])


def _times(port: Port, found: Row) -> Iterator[Found]:
    """Of methods that were called, and of all levels."""
    histograms, number, levels = port.shared.histograms, port.number, len(found["queue"]["levels"])
    names = port.shared.names.methods
    known = names.used_rows()
    waits, services, latencies = histograms.wait(), histograms.service(), histograms.latency()
    for row in range(port.shared.geometry.method_histograms):
        name = names.name(row)
        if row == METHOD_HISTOGRAMS - 1 and known and known[-1] > row:
            name = t.OTHER_METHODS
        if name and waits.methods[row].count + latencies.methods[row].count:
            yield t.CALL_DURATION, (number, t.RPC_SYSTEM, name), latencies.methods[row]
            yield t.WAIT, (number, name), waits.methods[row]
            yield t.SERVICE, (number, name), services.methods[row]
    for metric, times in (
        (t.LEVEL_DURATION, latencies),
        (t.LEVEL_WAIT, waits),
        (t.LEVEL_SERVICE, services),
    ):
        for level, histogram in enumerate(times.levels[:levels]):
            yield metric, (number, level), histogram
    for level, histogram in enumerate(waits.levels[:levels]):
        yield t.DRAWS, (number, level), histogram.count


def _calls(port: int, found: Row) -> Iterator[Found]:
    totals = found["totals"]
    refused = totals["refused"]
    yield t.CALLS, (port,), totals["calls"]
    for method in found["methods"]:
        name, failed, died = method["method"], method["failed"], method["died"]
        yield t.METHOD_CALLS, (port, name, "ok"), method["calls"] - failed
        yield t.METHOD_CALLS, (port, name, "failed"), failed - died
        yield t.METHOD_CALLS, (port, name, "died"), died
    for outcome in ("answered", "expired", "cancelled", "dropped", "died"):
        yield t.OUTCOMES, (port, outcome), totals[outcome]
    yield t.OUTCOMES, (port, "refused"), sum(refused.values())
    for reason, count in refused.items():
        yield t.REFUSALS, (port, reason), count
    yield t.BACKOFFS, (port,), sum(refused[reason] for reason in BACKOFF_REASONS)
    yield t.LATE, (port,), totals["late"]
    yield t.SLOW, (port,), totals["slow"]
    yield t.REQUEUED, (port,), totals["requeued"]
    yield t.SWEEPS, (port,), found["sweeps"]["done"]
    yield t.MISSED_SWEEPS, (port,), found["sweeps"]["missed"]


def _queue(port: int, queue: Row) -> Iterator[Found]:
    for level in queue["levels"]:
        labels = (port, level["level"])
        yield t.QUEUED, labels, level["waiting"]
        yield t.HELD, labels, level["held"]
        yield t.CAPACITY, labels, level["capacity"]
        yield t.WEIGHT, labels, level["weight"]
        yield t.OVERFLOWS, labels, level["overflowed"]
        yield t.BACKS_OFF, labels, int(level["backs_off"])
        yield t.LEVEL_USERS, labels, level["callers"]
    for lane in queue["lanes"]:
        yield t.LANE_QUEUED, (port, lane["lane"]), lane["waiting"]
    for group in queue.get("groups", ()):
        labels = (port, group["group"])
        yield t.GROUP_QUEUED, labels, group["waiting"]
        yield t.GROUP_CAPACITY, labels, group["capacity"]
        yield t.GROUP_HANDLERS, labels, group["handlers"]
        yield t.GROUP_RUNNING, labels, group["running"]
        yield t.GROUP_DRAWS, labels, group["drawn"]


def _limiters(port: int, limiters: Sequence[Row]) -> Iterator[Found]:
    for limiter in limiters:
        labels = (port, limiter["limiter"])
        yield t.LIMITER_RUNNING, labels, limiter["running"]
        yield t.LIMITER_HELD, labels, limiter["held"]
        for name, count in limiter.items():
            if name == "refused" or name.endswith("_holds"):
                yield t.LIMITER_EVENTS, (*labels, name.removesuffix("_holds")), count


def _users(port: Port, users: Row) -> Iterator[Found]:
    number = port.number
    yield t.USERS, (number,), users["unique"]
    for user in [*users["top"], {"user": t.OTHER_USERS, **users["others"]}]:
        labels = (number, user["user"])
        if user["share"] is not None:
            yield t.USER_SHARE, labels, user["share"]
        if "level" in user:
            yield t.USER_LEVEL, labels, user["level"]
        yield t.USER_COST, labels, user["decayed"]
        yield t.USER_QUEUED, labels, user["waiting"]
    names = port.shared.names.identities
    for row, histogram in port.shared.histograms.wait_of_watched().items():
        if name := names.name(row):
            yield t.USER_WAIT, (number, name), histogram


def _processes(port: Port, found: Row) -> Iterator[Found]:
    number, handlers = port.number, found["handlers"]
    states = ["absent", "starting", "idle", "running"]
    states += sorted({handler["state"] for handler in handlers} - set(states))
    for state in states:
        count = sum(handler["state"] == state for handler in handlers)
        yield t.HANDLERS, (number, state), count
    yield t.RUNNING, (number,), sum(handler["state"] == "running" for handler in handlers)
    yield t.BUSY, (number,), port.shared.columns.total(Counter.BUSY_NS) / 1e9
    yield t.REAPED, (number,), found["totals"]["reaped"]
    restarts: dict[str, int] = {}
    for process in found["processes"]:
        role = process["role"]
        restarts[role] = restarts.get(role, 0) + process["restarts"]
    for role, count in restarts.items():
        yield t.RESTARTS, (number, role), count


def _connections(port: int, totals: Row) -> Iterator[Found]:
    connections = totals["connections"]
    yield t.CONNECTIONS, (port,), connections["now"]
    yield t.CONNECTED, (port,), connections["ever"]
    for name in ("refused", "closed_slow", "closed_protocol", "closed_backoff"):
        yield t.CLOSED, (port, name.removeprefix("closed_")), connections[name]
    yield t.RECEIVED, (port,), totals["in_bytes"]
    yield t.SENT, (port,), totals["out_bytes"]


def _memory(port: int, segment: Row) -> Iterator[Found]:
    yield t.SEGMENT, (port,), segment["bytes"]
    for state, count in segment["slots"].items():
        yield t.SLOTS, (port, state.lower()), count
    for pages in segment["pages"]:
        labels = (port, pages["page_bytes"])
        yield t.PAGES, labels, pages["pages"]
        yield t.FREE_PAGES, labels, pages["free"]


def _of_server(first: Port, now_ns: int) -> Iterator[Found]:
    ipc, phase = first.ipc, first.shared.phase.get()
    for each in Phase:
        yield t.PHASE, (each.name.lower(),), int(each == phase)
    yield t.UPTIME, (), round((now_ns - first.created_ns) / 1e9, 3)
    what = (__version__, platform.python_version(), ipc.callqueue.impl, ipc.scheduler.impl)
    yield t.BUILD, what, 1
