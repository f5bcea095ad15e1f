"""Methods that a reader answers by itself: `rpc.ping`, `faircall.hello`, `rpc.cancel`.

They are not queued and not charged, so they do constant work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from ..workers import errors
from ..workers.envelope import Request, error_answer, result_answer
from ..workers.errors import error_object
from .callers import Callers, ClaimRefused
from .connection import Connection

PREFIXES = ("rpc.", "faircall.")

Cancel = Callable[[Connection, bytes], bool]


class BadParams(Exception):
    """The parameters do not fit; the message names them."""


class Builtins:
    """`cancel(connection, id)` withdraws the call with that raw id; False if there is none."""

    def __init__(self, callers: Callers, cancel: Cancel, claim_refused: Callable[[], None]) -> None:
        self._callers = callers
        self._cancel = cancel
        self._claim_refused = claim_refused
        self._methods: dict[str, Callable[[Connection, bytes, int], Any]] = {
            "rpc.ping": lambda connection, params, now_ns: "pong",
            "faircall.hello": self._hello,
            "rpc.cancel": self._withdraw,
        }

    def knows(self, method: str) -> bool:
        return method in self._methods

    def answer(self, connection: Connection, request: Request, now_ns: int) -> bytes:
        """The complete answer; nothing is sent for a notification."""
        id_ = request.id or b"null"
        try:
            result = self._methods[request.method](connection, request.params, now_ns)
        except ClaimRefused as error:
            self._claim_refused()
            return error_answer(id_, error_object(errors.UNAUTHENTICATED, str(error)))
        except BadParams as error:
            text = f"Invalid params: {request.method} {error}"
            return error_answer(id_, error_object(errors.INVALID_PARAMS, text))
        return result_answer(id_, orjson.dumps(result))

    def _hello(self, connection: Connection, params: bytes, now_ns: int) -> dict[str, object]:
        user = _one(params, "user")
        if not isinstance(user, str):
            raise BadParams('takes {"user": NAME}')
        caller = self._callers.claimed(connection.peer, user, now_ns)
        connection.become(caller)
        return {"user": user, "server": "faircall"}

    def _withdraw(self, connection: Connection, params: bytes, now_ns: int) -> bool:
        wanted = _raw_member(params, "id")
        return self._cancel(connection, wanted)


def _one(params: bytes, name: str) -> object:
    """The parameter `name`, or the only positional one."""
    value = orjson.loads(params or b"[]")
    if isinstance(value, list):
        if len(value) != 1:
            raise BadParams(f"takes one parameter, {name}")
        return value[0]
    if set(value) != {name}:
        raise BadParams(f"takes one parameter, {name}")
    return value[name]


def _raw_member(params: bytes, name: str) -> bytes:
    """As `_one`, but as the JSON that a request's raw id is compared with."""
    value = _one(params, name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadParams(f"{name} is the id of a call: a string or a number")
    return orjson.dumps(value)
