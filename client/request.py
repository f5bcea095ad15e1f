"""Requests as JSON text."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

CANCEL = "rpc.cancel"


@dataclass(frozen=True, slots=True)
class Request:
    """A request but for its id, which the connection gives it; a notification gets none.

    `limit_s`: how long its caller waits, in seconds, which may be infinite.
    """

    method: str
    members: bytes
    limit_s: float = math.inf
    notification: bool = False

    def encode(self, id: int | None) -> bytes:
        """The request object, on one line."""
        if id is None:
            return b'{"jsonrpc":"2.0",%b}' % self.members
        return b'{"jsonrpc":"2.0","id":%d,%b}' % (id, self.members)


def build_request(
    method: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    limit_s: float = math.inf,
    context: str | None = None,
    notification: bool = False,
) -> Request:
    """Encodes the parameters, bytes as base64 and numpy arrays as lists, and what goes with them.

    TypeError if there are positional and named ones, or one that JSON cannot hold.
    """
    if args and kwargs:
        raise TypeError(f"{method}: JSON-RPC takes positional or named parameters, not both")
    members = [b'"method":' + orjson.dumps(method)]
    if args or kwargs:
        members.append(b'"params":' + _encode(args or kwargs))
    if meta := _meta(limit_s, context):
        members.append(b'"meta":' + orjson.dumps(meta))
    return Request(method, b",".join(members), limit_s, notification)


def cancel_request(id: int) -> Request:
    """Asks the server, which will not answer that, to drop the call with this id."""
    return build_request(CANCEL, kwargs={"id": id}, notification=True)


def _meta(limit_s: float, context: str | None) -> dict[str, Any]:
    timeout = {"timeout_ms": math.ceil(limit_s * 1000)} if math.isfinite(limit_s) else {}
    return timeout if context is None else {**timeout, "caller_context": context}


def _encode(params: Any) -> bytes:
    try:
        return orjson.dumps(params, default=_as_base64, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise TypeError(f"a parameter cannot be sent as JSON: {error}") from error.__cause__


def _as_base64(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON type")
