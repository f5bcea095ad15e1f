"""What the page shows: `GET /stats.json` and `GET /explain.json`.

    /stats.json?sort=share    `faircall stats --json`, and beside it
        rates                 the rates in force, each with its source; `left_out` of them are not
                              told; None where nobody could change them
        ports[].who           `faircall users`: TOP users by `sort`, and who overloads the port
        ports[].recent        times of each level, of the last ten seconds     (`recent_times`)
        ports[].handlers[]    `ran_ms`: for how long it has run its call, None without one
    /explain.json?user=ann    `faircall explain ann --json`, and the same as `text`, in lines

Nothing is kept for a page that nobody looks at. What was told is told again for KEPT_NS, so that
many who look cost as much as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from ...workers.errors import RpcError
from ..wire.http_reply import JSON, Reply
from .http_routes import Routes
from .http_wire import HttpAnswer, HttpRequest
from .recent_times import RecentTimes
from .user_list import SORTS
from .users_text import explain_lines

if TYPE_CHECKING:
    from ..port import Port

TOP = 50  # users that are told
MOST_RATES = 100
KEPT_NS = 500_000_000

Method = Callable[[Any], Any]


class PageFigures:
    """`methods` are those of the admin socket, by name."""

    def __init__(self, ports: Sequence[Port], methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self._times = [RecentTimes(port.shared) for port in ports]
        self._kept: dict[str, tuple[int, bytes]] = {}  # sort: when it was told, and what

    def routes(self) -> Routes:
        return {("GET", "/stats.json"): self._stats, ("GET", "/explain.json"): self._explain}

    def _stats(self, request: HttpRequest) -> HttpAnswer:
        sort = _asked(request, "sort") or SORTS[0]
        if sort not in SORTS:
            raise Reply(400, f"sort is one of {', '.join(SORTS)}")
        now_ns = time.monotonic_ns()
        told_ns, body = self._kept.get(sort, (0, b""))
        if not body or now_ns - told_ns >= KEPT_NS:
            body = orjson.dumps(self.figures(sort, now_ns))
            self._kept[sort] = now_ns, body
        return HttpAnswer(body=body, content_type=JSON.decode())

    def figures(self, sort: str, now_ns: int) -> dict[str, Any]:
        """All that the page shows, but for explanations."""
        found: dict[str, Any] = self._methods["faircall.stats"](None)
        users = self._methods["faircall.users"]({"sort": sort, "top": TOP})
        runs = self._methods["faircall.dump"]({"what": "handlers"})
        for port, who, times, of_port in zip(
            found["ports"], users["ports"], self._times, runs["ports"], strict=True
        ):
            port["who"], port["recent"] = who, times.levels(now_ns)
            ran_ms = {row["handler"]: row.get("ran_ms") for row in of_port["rows"]}
            for handler in port["handlers"]:
                handler["ran_ms"] = ran_ms.get(handler["index"])
        return {**found, "sort": sort, "rates": self._rates()}

    def _rates(self) -> dict[str, Any] | None:
        get = self._methods.get("faircall.get_dispatch_rate")
        if get is None:
            return None
        found: dict[str, Any] = get(None)
        left_out = max(0, len(found["rates"]) - MOST_RATES)
        return {**found, "rates": found["rates"][:MOST_RATES], "left_out": left_out}

    def _explain(self, request: HttpRequest) -> HttpAnswer:
        try:
            found = self._methods["faircall.explain"]({"user": _asked(request, "user")})
        except RpcError as error:
            raise Reply(404, error.message) from None
        body = {**found, "text": list(explain_lines(found))}
        return HttpAnswer(body=orjson.dumps(body), content_type=JSON.decode())


def _asked(request: HttpRequest, name: str) -> str:
    """A parameter of the query, "" if it is not there."""
    return parse_qs(request.query, max_num_fields=10).get(name, [""])[0]
