"""What the admin process serves over HTTP: a table of (method, path) and what answers it.

A route takes the request and returns an answer, or an awaitable of one, or raises `Reply`. HEAD is
answered as GET, without the body. Who may ask at all was decided before (`http_access`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from ...shm.states import Phase
from ..wire.http_reply import Reply
from .http_wire import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from ...shm.processes import ServerPhase

log = logging.getLogger("faircall.admin")

Route = Callable[[HttpRequest], HttpAnswer | Awaitable[HttpAnswer]]
Routes = Mapping[tuple[str, str], Route]


async def dispatch(routes: Routes, request: HttpRequest) -> HttpAnswer:
    """What the route of `request` answers; raises `Reply` if there is none, or it fails."""
    method = "GET" if request.method == "HEAD" else request.method
    route = routes.get((method, request.path))
    if route is None:
        raise _no_route(routes, request.path)
    try:
        answer = route(request)
        return await answer if isinstance(answer, Awaitable) else answer
    except Reply:
        raise
    except Exception as error:
        log.error("admin route failed", {"path": request.path}, exc_info=error)
        raise Reply(500, "this failed; the log of the daemon says why") from None


def _no_route(routes: Routes, path: str) -> Reply:
    methods = {method for method, known in routes if known == path}
    if not methods:
        paths = ", ".join(sorted({known for _, known in routes}))
        return Reply(404, f"nothing is here; there are {paths}")
    names = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
    return Reply(405, f"allowed: {names}", headers=f"Allow: {names}\r\n".encode())


def health_routes(phase: ServerPhase) -> Routes:
    """`/livez`: this process answers. `/readyz`: the server takes calls, 503 if it does not."""

    def livez(request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(body=b"alive\n")

    def readyz(request: HttpRequest) -> HttpAnswer:
        now = phase.get()
        return HttpAnswer(200 if now == Phase.RUNNING else 503, f"{now.name.lower()}\n".encode())

    return {("GET", "/livez"): livez, ("GET", "/readyz"): readyz}
