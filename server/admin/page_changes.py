"""What the page changes: an admin method for each path, its parameters as the JSON of a POST.

    /throttle/set      faircall.set_dispatch_rate
    /throttle/remove   faircall.remove_dispatch_rate
    /cancel            faircall.cancel

Who may is decided before (`http_access`); who did is logged. A method's error is the answer's text:
400 for what was asked wrongly, 409 for what the supervisor refuses, 503 if it does not answer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from ...workers.errors import APPLICATION_ERROR, INVALID_PARAMS, RpcError
from ..wire.http_reply import JSON, Reply
from .http_routes import Route, Routes
from .http_wire import HttpAnswer, HttpRequest

log = logging.getLogger("faircall.admin")

CHANGES: Mapping[str, str] = {
    "/throttle/set": "faircall.set_dispatch_rate",
    "/throttle/remove": "faircall.remove_dispatch_rate",
    "/cancel": "faircall.cancel",
}
STATUS = {INVALID_PARAMS: 400, APPLICATION_ERROR: 409}  # any other: 503

Method = Callable[[Any], Any]


def change_routes(methods: Mapping[str, Method]) -> Routes:
    """A route for each change that there is a method for."""
    return {
        ("POST", path): _route(name, methods[name])
        for path, name in CHANGES.items()
        if name in methods
    }


def _route(name: str, method: Method) -> Route:
    async def change(request: HttpRequest) -> HttpAnswer:
        asked = _object(request.body)
        try:
            found = method(asked)
            result = await found if isinstance(found, Awaitable) else found
        except RpcError as error:
            raise Reply(STATUS.get(error.code, 503), error.message) from None
        log.info("changed over HTTP", {"method": name, "by": request.user, "params": asked})
        return HttpAnswer(body=orjson.dumps(result), content_type=JSON.decode())

    return change


def _object(body: bytes) -> dict[str, Any]:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Reply(400, "this is no JSON") from None
    if not isinstance(asked, dict):
        raise Reply(400, "send the parameters as a JSON object")
    return asked
