"""What the admin socket answers: every method stands in `AdminMethods.methods`, and only there.

A method takes the parsed `params` (a list, a mapping, or None) and returns plain JSON values, or
an awaitable of them, or raises RpcError. It runs between two of the admin process's beats and
blocks nobody but the other admin clients.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...shm.layout import HEADER
from ...workers.errors import INVALID_PARAMS, RpcError
from .alarms import Alarms
from .caller_methods import CallerMethods
from .cancel import CancelMethod
from .http_routes import Routes
from .metrics import Metrics
from .page_changes import change_routes
from .page_figures import PageFigures
from .page_files import page_routes
from .rates import Order, RateMethods
from .stats import PortStats
from .workers import WorkersMethod

if TYPE_CHECKING:
    from ..port import Port

Params = Sequence[Any] | Mapping[str, Any] | None
AdminMethod = Callable[[Params], object]
Refresh = Callable[[], Awaitable[dict[str, Any]]]


class AdminMethods:
    """`methods` maps a method's name to what carries it out. `refresh` reads the settings again,
    `order` has the supervisor carry something out."""

    def __init__(
        self,
        ports: Sequence[Port],
        refresh: Refresh | None = None,
        order: Order | None = None,
    ) -> None:
        now_ns = time.monotonic_ns()
        self._ports = ports
        self._stats = [PortStats(port, now_ns) for port in ports]
        self.callers = CallerMethods(ports, [stats.recent for stats in self._stats], now_ns)
        self.alarms = Alarms(ports, now_ns)
        self.metrics = Metrics(ports, self._stats, self.alarms)
        self.methods: Mapping[str, AdminMethod] = {
            "faircall.ping": self.ping,
            "faircall.phase": self.phase,
            "faircall.stats": self.stats,
            "faircall.users": self.callers.users,
            "faircall.explain": self.callers.explain,
            "faircall.dump": self.callers.dump,
            **(
                {"faircall.refresh_call_queue": self._refresh_call_queue(refresh)}
                if refresh
                else {}
            ),
            **(_orders(ports, order) if order else {}),
        }
        self._page = PageFigures(ports, self.methods)

    def routes(self) -> Routes:
        """What is served over HTTP, too: the metrics, and the page for operators."""
        changes = change_routes(self.methods)
        return {**self.metrics.routes(), **page_routes(), **self._page.routes(), **changes}

    def tick(self, now_ns: int) -> None:
        """About every second: what is counted over a while."""
        for stats in self._stats:
            stats.tick(now_ns)
        self.callers.tick(now_ns)

    def ping(self, params: Params) -> str:
        _none(params)
        return "pong"

    def phase(self, params: Params) -> dict[str, Any]:
        """The phase of the server, and for how long it has been in it."""
        _none(params)
        segment = self._ports[0].shared.segment
        header = segment.records(HEADER, segment.layout.header, 1)[0]
        since_ns = time.monotonic_ns() - int(header["phase_ns"])
        return {
            "phase": self._ports[0].shared.phase.get().name,
            "since_s": round(since_ns / 1e9, 3) if header["phase_ns"] else None,
        }

    def _refresh_call_queue(self, refresh: Refresh) -> AdminMethod:
        """Hadoop's refreshCallQueue, for all settings that can change while the server runs."""

        def refresh_call_queue(params: Params) -> Awaitable[dict[str, Any]]:
            _none(params)
            return refresh()

        return refresh_call_queue

    def stats(self, params: Params) -> dict[str, Any]:
        """Everything that is counted, of every port."""
        _none(params)
        now_ns = time.monotonic_ns()
        segment = self._ports[0].shared.segment
        header = segment.records(HEADER, segment.layout.header, 1)[0]
        ports = [stats.snapshot(now_ns) for stats in self._stats]
        return {
            "faircall": __version__,
            "pid": int(header["creator_pid"]),
            "phase": ports[0]["phase"],
            "uptime_s": ports[0]["uptime_s"],
            "alarms": self.alarms.active(now_ns),
            "ports": ports,
        }


def _orders(ports: Sequence[Port], order: Order) -> dict[str, AdminMethod]:
    rates = RateMethods(ports, order)
    return {
        "faircall.set_dispatch_rate": rates.set,
        "faircall.get_dispatch_rate": rates.get,
        "faircall.remove_dispatch_rate": rates.remove,
        "faircall.explain_dispatch_rate": rates.explain,
        "faircall.cancel": CancelMethod(order),
        "faircall.reload_workers": WorkersMethod(order),
    }


def _none(params: Params) -> None:
    if params:
        raise RpcError(INVALID_PARAMS, "Invalid params: this method takes none")
